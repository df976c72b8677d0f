// Every route against every state that a credential can be in: who is let in follows from the table of routes, and nothing else does.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { holds } from "#shared/scopes.ts";
import { needsCredential, pathOf, type Route } from "../../cloud/route.ts";
import { routes } from "../../cloud/routes/index.ts";
import type { Client } from "../../fixtures/client.ts";
import { type Parts, tampered } from "../../fixtures/forge.ts";
import { filled, furnishing, name, named, nounOf, sendingOf } from "../furnished.ts";
import { world } from "../world.ts";

const w = await world();
const POOR = "autoid:verify";
const DAY_MS = 24 * 3_600_000;
const OURS = { origin: w.url, "content-type": "application/json" };

const mint = async (scopes: string[], admin = w.admin) =>
  (await admin.post("/api-keys", { name: "k", scopes })).body.data as { id: string; secret: string };
async function token(): Promise<{ client: string; secret: string }> {
  const { client_id, client_secret } = (await w.admin.post("/oauth/clients", { name: "c", scopes: ["*:*"] })).body;
  const asked = { grant_type: "client_credentials", client_id, client_secret };
  const { access_token: secret } = (await w.nobody.post("/oauth/token", asked, { "idempotency-key": randomUUID() })).body;
  return { client: client_id, secret };
}
async function sandboxPastItsEnd() {
  const expiresAt = new Date(Date.now() + DAY_MS / 2).toISOString();
  return (await w.tenant("over", { sandbox: true, expiresAt })).admin;
}
async function sessionThatEnded() {
  const begun = await w.nobody.send("POST", "//console/session", { json: { key: w.adminKey }, headers: OURS });
  const cookie = begun.headers.get("set-cookie")?.split(";")[0] ?? "";
  await w.nobody.send("DELETE", "//console/session", { headers: { cookie, ...OURS } });
  return withHeaders({ cookie, ...OURS });
}
const withHeaders = (headers: Record<string, string>): Client => {
  const send: Client["send"] = (method, path, sending = {}) =>
    w.nobody.send(method, path, { ...sending, headers: { ...headers, ...sending.headers } });
  return { ...w.nobody, send, get: (path) => send("GET", path) };
};

// Time passes first: what is to be over by now is made before.
const [over, expired, session] = [await sandboxPastItsEnd(), await token(), await sessionThatEnded()];
w.later(DAY_MS);
const [revoked, rotated, deleted, living] = [await mint(["*:*"]), await mint(["*:*"]), await token(), await token()];
await w.admin.delete(`/api-keys/${revoked.id}`);
await w.admin.post(`/api-keys/${rotated.id}/rotate`);
await w.admin.delete(`/oauth/clients/${deleted.client}`);
const poor = w.as((await mint([POOR])).secret);

const ofAnotherTenant = ({ header, payload }: Parts): Parts => ({ header, payload: { ...payload, tenant: randomUUID() } });
const strangers: Record<string, Client> = {
  "no credential": w.nobody,
  "a made-up key": w.as("imp_made-up"),
  "a key that was cut": w.as(rotated.secret.slice(0, -1)),
  "a key under another scheme": withHeaders({ authorization: `Basic ${w.adminKey}` }),
  "an empty Authorization beside a good key": withHeaders({ authorization: "Bearer ", "x-api-key": w.adminKey }),
  "a revoked key": w.as(revoked.secret),
  "a key that was rotated away": w.as(rotated.secret),
  "a token that has expired": w.as(expired.secret),
  "a token of a deleted client": w.as(deleted.secret),
  "a token in which the tenant was changed": w.as(tampered(living.secret, ofAnotherTenant)),
  "a session that ended": session,
};

const NOTHING = "019a0000-0000-7000-8000-000000000000";
const at = (route: Route) => (route.root ? "/" : "") + route.path.replaceAll(/\{\w+\}/g, NOTHING);
const codeOf = ({ body }: { body?: { error?: { code?: string } } }) => body?.error?.code;
const closed = routes.filter(needsCredential);

test.each(Object.entries(strangers))(
  "with %s no route but the public ones lets anybody in, and the answer tells nothing",
  async (_state, as) => {
    const heard = new Set<string>();
    const wrong: string[] = [];
    for (const route of closed) {
      const answer = await as.send(route.method, at(route), sendingOf(route, {}));
      if (as === session && codeOf(answer) === "CROSS_SITE" && (route.takesFile || route.takesBytes)) continue; // no page of ours sends those
      if (!route.standard) heard.add(answer.text);
      const isRefused = answer.status === 401 && codeOf(answer) === "UNAUTHORIZED" && answer.headers.get("www-authenticate") !== null;
      if (!isRefused) wrong.push(`${name(route)}: ${answer.status} ${answer.text}`);
    }
    expect(wrong).toEqual([]);
    expect(heard.size).toBe(1);
  },
);

test("a sandbox past its end is refused everywhere but where its end can be read", async () => {
  const wrong: string[] = [];
  for (const route of closed) {
    if (route.endless) continue;
    const answer = await over.send(route.method, at(route), sendingOf(route, {}));
    if ((codeOf(answer) === "SANDBOX_EXPIRED") === (route.evenExpired ?? false))
      wrong.push(`${name(route)}: ${answer.status} ${answer.text}`);
  }
  expect(wrong).toEqual([]);
});

test("a scope opens the routes that name it and no others", async () => {
  const wrong: string[] = [];
  for (const route of closed) {
    if (route.endless) continue;
    const answer = await poor.send(route.method, at(route), sendingOf(route, {}));
    const isOpen = route.scope === "credential" || (Array.isArray(route.scope) && route.scope.some((scope) => holds([POOR], scope)));
    const isDenied = answer.status === 403 && codeOf(answer) === (route.deniedAs ?? "API_SCOPE_DENIED");
    if (isDenied === isOpen) wrong.push(`${name(route)}: ${answer.status} ${answer.text}`);
  }
  expect(wrong).toEqual([]);
});

test("what is public is so with any credential, and says the same", async () => {
  const open = routes.filter(({ scope, method }) => scope === "public" && method === "GET");
  const wrong: string[] = [];
  for (const route of open) {
    const [without, dead] = await Promise.all([w.nobody, w.as(revoked.secret)].map((as) => as.send("GET", at(route))));
    if (without?.status === 401 || without?.status !== dead?.status) wrong.push(`${name(route)}: ${without?.status} and ${dead?.status}`);
  }
  expect([open.length > 10, wrong]).toEqual([true, []]);
});

const [home, stranger] = [await furnishing(w), await furnishing(w)];
/** An id of the same shape that nothing has. */
const missing = Object.fromEntries(
  Object.entries(home.ids).map(([noun, id]) => [noun, noun === "sector" ? id : id.replace(/.$/, (last) => (last === "0" ? "1" : "0"))]),
);
const ofTenants = routes.filter(
  ({ path, scope, takesBytes }) =>
    path.includes("{") && !path.includes("{category}") && scope !== "public" && !scope.includes("platform:admin") && !takesBytes,
);
const VARYING = new Set(["date", "x-correlation-id"]);

test.each(named(ofTenants))("%s answers another tenant's as what was never there, byte for byte", async (_name, route) => {
  const ask = async (ids: Record<string, string>) => {
    const { status, text, headers } = await stranger.admin.send(route.method, filled(route, ids), sendingOf(route, {}));
    return {
      status,
      text: text.replaceAll(ids[nounOf(route)] ?? "", "(what was asked for)"),
      headers: [...headers].filter(([header]) => !VARYING.has(header)),
    };
  };
  const foreign = await ask(home.ids);
  expect(foreign).toEqual(await ask(missing));
  expect(foreign.status).toBe(404);
});

test("the control: to its owner the same address is another answer, so that the comparison can fail", async () => {
  const readable = ofTenants.filter(({ method, path }) => method === "GET" && !path.includes("export"));
  const same: string[] = [];
  for (const route of readable) {
    const [foreign, ...owned] = await Promise.all(
      [stranger.admin, home.admin, home.shop.admin].map(async (as) => (await as.get(filled(route, home.ids))).text),
    );
    if (owned.every((text) => text === foreign)) same.push(`${pathOf(route)} (${nounOf(route)})`);
  }
  expect([readable.length > 20, same]).toEqual([true, []]);
});
