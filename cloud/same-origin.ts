// What a browser sends along by itself proves nothing: a console session counts only for requests that our own page made (CSRF).
import { Refusal } from "#shared/errors.ts";
import type { Asked } from "./route.ts";

const isRead = (method: string) => method === "GET" || method === "HEAD";
const refused = (why: string) => new Refusal("CROSS_SITE", `${why}: use the console's own page, or send Authorization`);

/** Refuses what a browser says comes from elsewhere. Over plain http it may say nothing of it but Origin. */
export function refuseElsewhere({ method, headers }: Pick<Asked, "method" | "headers">, origin: string): void {
  const site = headers["sec-fetch-site"];
  const typed = site === "none" && isRead(method); // by the user, into the address bar
  if (site !== undefined && site !== "same-origin" && !typed) throw refused(`the request comes from elsewhere (${site})`);
  const sent = headers.origin;
  if (sent !== undefined && sent !== origin && URL.parse(sent)?.host !== headers.host) throw refused(`the request comes from ${sent}`);
}

/** The same for a request that rides on the cookie; one that changes something also has to say where it comes from, in JSON. */
export function refuseForged(asked: Pick<Asked, "method" | "headers">, origin: string): void {
  refuseElsewhere(asked, origin);
  const { method, headers } = asked;
  if (isRead(method)) return;
  if (headers.origin === undefined && headers["sec-fetch-site"] === undefined) throw refused("the request doesn't say where it comes from");
  if (!/^application\/json\s*(;|$)/i.test(headers["content-type"] ?? "")) throw refused("its body isn't application/json");
}
