// The console's door: signing in and out, who is signed in, and the stream that keeps a page up to date.
import { setTimeout } from "node:timers/promises";
import { type FieldFault, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { ConsoleSession, SignIn } from "#shared/wire/console.ts";
import { cookieIn, setCookie } from "../console-cookie.ts";
import { append } from "../domain/audit.ts";
import * as sessions from "../domain/console-sessions.ts";
import { byClient, byKey, type Caller, hasEnded, type Known } from "../domain/callers.ts";
import { instant } from "../domain/instant.ts";
import { own } from "../domain/tenants.ts";
import { type Route, routesUnder } from "../route.ts";
import { refuseElsewhere } from "../same-origin.ts";
import type { Tx } from "../store/store.ts";

const { serve } = routesUnder("console");
const noStore = { "cache-control": "no-store" };

/** One way to sign in, and all of it. */
function oneWay({ key, client_id: id, client_secret: secret }: SignIn): FieldFault[] {
  const message = "send either key, or client_id and client_secret";
  return (key === undefined) === (id === undefined && secret === undefined) || (id === undefined) !== (secret === undefined)
    ? [{ field: "key", rule: "either", message }]
    : [];
}

/** The credential that the body names, if it is genuine; `known` alone where a real client came with a wrong secret. */
async function lookUp(tx: Tx, { key, client_id: id = "", client_secret: secret = "" }: SignIn) {
  if (key === undefined) return byClient(tx, id, { secret });
  const known = await byKey(tx, key);
  return known && { ...known, genuine: true };
}

const shown = async (tx: Tx, caller: Caller, endsAt: number | null): Promise<ConsoleSession> => {
  const { id, name, sandbox } = await own(tx, caller);
  return { tenant: { id, name, sandbox }, credential: caller.credential, scopes: [...caller.scopes], endsAt: instant(endsAt) };
};

async function admitted(tx: Tx, body: SignIn, requestId: string): Promise<Known | undefined> {
  const known = await lookUp(tx, body);
  if (known?.genuine) return known;
  if (known) append(tx, known.caller, { action: "auth.token_refused", subject: known.caller.credential.id, requestId });
  return undefined;
}

export const floorConsole: Route[] = [
  serve({
    method: "POST",
    path: "/console/session",
    root: true,
    scope: "public",
    says: "Sign in to the console with an API key or an OAuth client: the answer sets a cookie that no script can read",
    body: SignIn,
    example: { client_id: "019a…", client_secret: "imp_…" },
    judge: (body) => oneWay(body as SignIn),
    replies: { 201: ConsoleSession },
    refusals: ["UNAUTHORIZED", "CROSS_SITE", "SANDBOX_EXPIRED"],
    run: async ({ body, asked, requestId, deps }) => {
      refuseElsewhere(asked, deps.origin());
      const from = asked.from();
      const who = body.client_id;
      deps.lockout.admit(who, from);
      const notBefore = setTimeout(limits.WRONG_SECRET_ANSWER_MIN_MS, undefined, { ref: false });
      const begun = await deps.store.write("console sign-in", async (tx) => {
        const known = await admitted(tx, body, requestId);
        if (!known) return undefined;
        deps.lockout.right(who, from);
        if (hasEnded(known, tx.now)) throw new Refusal("SANDBOX_EXPIRED");
        const before = cookieIn(asked.headers, deps.origin());
        if (before !== undefined) await sessions.end(tx, before); // one browser, one session
        const { cookie, endsAt } = await sessions.begin(tx, known.caller);
        append(tx, known.caller, { action: "auth.session_begun", subject: known.caller.credential.id, requestId });
        return { cookie, session: await shown(tx, known.caller, endsAt) };
      });
      if (!begun) {
        deps.lockout.wrong(who, from);
        await notBefore;
        throw new Refusal("UNAUTHORIZED", "the key, or the client and its secret, is wrong, revoked or cut");
      }
      return { status: 201, body: begun.session, headers: { ...noStore, ...setCookie(deps.origin(), begun.cookie) } };
    },
  }),
  serve({
    path: "/console/session",
    root: true,
    scope: "credential",
    evenExpired: true,
    says: "Who is signed in, and what they may do",
    replies: { 200: ConsoleSession },
    run: async ({ caller, asked, deps }) => {
      const cookie = cookieIn(asked.headers, deps.origin());
      const session = await deps.store.read("console session", async (tx) => {
        const found = cookie === undefined ? undefined : await sessions.find(tx, cookie);
        return shown(tx, caller, found?.endsAt ?? null);
      });
      return { status: 200, body: session, headers: noStore };
    },
  }),
  serve({
    method: "DELETE",
    path: "/console/session",
    root: true,
    scope: "credential",
    evenExpired: true,
    says: "Sign out: the session is over on every node",
    replies: { 204: "Signed out" },
    run: async ({ caller, asked, requestId, deps }) => {
      const cookie = cookieIn(asked.headers, deps.origin());
      if (cookie !== undefined)
        await deps.store.write("console sign-out", async (tx) => {
          await sessions.end(tx, cookie);
          append(tx, caller, { action: "auth.session_ended", subject: caller.credential.id, requestId });
        });
      return { status: 204, headers: { ...noStore, ...setCookie(deps.origin()) } };
    },
  }),
  serve({
    path: "/console/events",
    root: true,
    endless: true,
    scope: "credential",
    says: "What is new, as server-sent events: `summary`, `devices`, `changed` (topics to look at again), `alive` every 15 s, `end`; each at most ten times a second",
    replies: { 200: "text/event-stream" },
    run: async ({ caller, asked, deps }) => {
      const good = () =>
        deps.authenticate(asked.headers).then(
          ({ expired }) => !expired,
          (error: unknown) => !(error instanceof Refusal && error.status < 500), // a store that is away for a moment ends nobody's session
        );
      const headers = { ...noStore, "content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no" };
      return { status: 200, body: deps.pulse.follow(caller, good), headers };
    },
  }),
];
