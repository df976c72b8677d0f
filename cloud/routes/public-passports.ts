// The public passport: a page for people in their language, JSON-LD and the signed credential for machines, by Accept or by suffix.
import { hash } from "node:crypto";
import { Type } from "typebox";
import { closed } from "#shared/wire/common.ts";
import { mediaWanted } from "../accept.ts";
import { absent, documentOf, open, type PublicPassport } from "../domain/public-passports.ts";
import { type Asked, type Reply, type Route, routesUnder } from "../route.ts";
import { PAGE_HEADERS } from "../web/layout.ts";
import { passportPage } from "../web/passport-page.ts";
import { languageOf, refusalPage } from "../web/refusal-page.ts";

const { serve } = routesUnder("public");

const SUFFIXES = { jsonld: "application/ld+json", vc: "application/vc+jwt" } as const;
const MEDIA = ["text/html", "application/ld+json", "application/vc+jwt", "application/json"] as const;
type Media = (typeof MEDIA)[number];

/** The uid, and the form that its suffix names. */
function split(name: string): { uid: string; media: Media | undefined } {
  const [uid = "", ...suffix] = name.split(".");
  const named = suffix.join(".");
  return Object.hasOwn(SUFFIXES, named) ? { uid, media: SUFFIXES[named as keyof typeof SUFFIXES] } : { uid: name, media: undefined };
}

type Form = { body: string; headers: Record<string, string> };
function formOf(passport: PublicPassport, media: Media, asked: Asked, origin: string): Form {
  if (media === "application/vc+jwt") return { body: passport.credential, headers: { "content-type": media } };
  if (media !== "text/html") return { body: documentOf(passport), headers: { "content-type": media } };
  const language = languageOf(asked);
  return { body: passportPage(passport, language, origin), headers: { ...PAGE_HEADERS, "content-language": language } };
}

const tagged = ({ body, headers }: Form): Reply => ({
  status: 200,
  body,
  headers: { ...headers, etag: `"${hash("sha256", body, "base64url").slice(0, 27)}"` },
});

export const publicPassports: Route[] = [
  serve({
    path: "/p/{uid}",
    root: true,
    scope: "public",
    says: "A public passport: a page, JSON-LD (.jsonld) or the signed credential (.vc); `?serial=` for one item of it",
    params: closed({
      uid: Type.String({ minLength: 1, maxLength: 64, description: "The product's id, with .jsonld or .vc where wanted" }),
    }),
    query: closed({ serial: Type.Optional(Type.String({ minLength: 1, maxLength: 20 })) }),
    readsAddress: true,
    headers: { "cache-control": "no-cache", vary: "Accept, Accept-Language" },
    open: true,
    refusalPage,
    replies: { 200: MEDIA, 304: "Known by its ETag" },
    sends: ["ETag"],
    maySend: ["Content-Language"],
    refusals: ["NOT_FOUND", "INVALID_SERIAL", "PRODUCT_NOT_FOUND", "SERIAL_VOIDED", "PASSPORT_WITHDRAWN"],
    run: async ({ params, asked, deps }) => {
      const { uid, media } = split(params.uid);
      if (!/^[\w-]{1,64}$/.test(uid)) throw absent();
      const serial = new URL(asked.url, deps.origin()).searchParams.get("serial") ?? undefined;
      const { host } = new URL(deps.origin());
      const passport = await deps.store.read("public passport", () => open(uid, serial, host));
      const wanted = media ?? mediaWanted(asked.headers.accept, MEDIA) ?? "text/html";
      return tagged(formOf(passport, wanted, asked, deps.origin()));
    },
  }),
];
