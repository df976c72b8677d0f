// The console's door: a session that holds no credential, dies with it, and listens to nobody but its own page.
import { gzipSync } from "node:zlib";
import pino from "pino";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { BEAT_MS } from "#shared/beat.ts";
import { limits } from "#shared/limits.ts";
import { manyStations } from "../../fixtures/busy-floor.ts";
import type { Answer, Client } from "../../fixtures/client.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { productMaker } from "../../fixtures/publishing.ts";
import { follow, type Followed, type Heard } from "../../fixtures/sse.ts";
import { world } from "../world.ts";
import type { Store } from "../../cloud/store/store.ts";
import { startPulse } from "../../cloud/workers/pulse.ts";

const w = await world();
const json = { "content-type": "application/json" };
const home = { ...json, origin: w.url };

const signIn = (body: object, headers: Record<string, string> = {}) => w.nobody.post("//console/session", body, headers);
const cookieOf = ({ headers }: Answer) => (headers.get("set-cookie") ?? "").split(";")[0] ?? "";

/** A browser's requests after signing in. */
const browse = (cookie: string): Client => {
  const with_ = (headers: Record<string, string> = {}) => ({ cookie, ...headers });
  return {
    ...w.nobody,
    get: (path, sending = {}) => w.nobody.get(path, { ...sending, headers: with_(sending.headers) }),
    post: (path, body, headers) => w.nobody.post(path, body, with_(headers)),
    send: (method, path, sending = {}) => w.nobody.send(method, path, { ...sending, headers: with_(sending.headers) }),
    delete: (path, headers) => w.nobody.send("DELETE", path, { body: "{}", headers: with_(headers) }),
  };
};
async function signedIn(secret: string): Promise<Client> {
  const answer = await signIn({ key: secret });
  expect(answer.status).toBe(201);
  return browse(cookieOf(answer));
}
const keyOf = async (admin: Client, scopes: string[]) => (await admin.post("/api-keys", { name: "shift lead", scopes })).body.data;

describe("signing in", () => {
  test("takes an API key and answers who it is, with a cookie that no script can read and no other site sends", async () => {
    const shop = await printShop(w);
    const { secret, id } = await keyOf(shop.admin, ["aidc:read"]);
    const answer = await signIn({ key: secret });
    expect(answer.body).toMatchObject({
      tenant: { id: shop.tenantId, name: "print shop", sandbox: true },
      credential: { kind: "api_key", id, name: "shift lead" },
      scopes: ["aidc:read"],
    });
    const cookie = answer.headers.get("set-cookie") ?? "";
    expect(cookie.split("; ")).toEqual([
      expect.stringMatching(/^imprimatur_console=[\w-]{43}$/),
      `Max-Age=${limits.CONSOLE_SESSION_LIFE_S}`,
      "Path=/",
      "HttpOnly",
      "SameSite=Strict",
    ]);
    expect(answer.text).not.toContain(secret);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect((await browse(cookieOf(answer)).get("//console/session")).body).toEqual(answer.body);
  });

  test("takes a bootstrap key of any length that it may have", async () => {
    const key = "k".repeat(limits.SECRET_MAX_LENGTH);
    const own = await world({ settings: { IMPRIMATUR_BOOTSTRAP_KEY: key } });
    expect((await own.as(key).get("/tenant")).status).toBe(200);
    expect((await own.nobody.post("//console/session", { key })).status).toBe(201);
  });

  test("takes an OAuth client as well", async () => {
    const client = (await w.admin.post("/oauth/clients", { name: "wall screen", scopes: ["products:read"] })).body;
    const answer = await signIn({ client_id: client.client_id, client_secret: client.client_secret });
    expect([answer.status, answer.body.credential.name, answer.body.scopes]).toEqual([201, "wall screen", ["products:read"]]);
    const page = browse(cookieOf(answer));
    expect((await page.get("/products")).status).toBe(200);
    expect((await page.get("/aidc/jobs")).body.error.code).toBe("API_SCOPE_DENIED");
    await w.admin.delete(`/oauth/clients/${client.client_id}`);
    expect((await page.get("/products")).status).toBe(401);
  });

  test("over https its cookie is bound to the host and to https", async () => {
    const secure = await world({ settings: { IMPRIMATUR_PUBLIC_URL: "https://dpp.example" } });
    const answer = await secure.nobody.post("//console/session", { key: secure.adminKey }, { origin: "https://dpp.example" });
    expect(answer.headers.get("set-cookie")).toMatch(/^__Host-imprimatur_console=.*; Secure/);
    const cookie = cookieOf(answer);
    expect((await secure.nobody.get("/tenant", { headers: { cookie } })).status).toBe(200);
    // A neighbour of the host, or who sits on the line, can plant one without the prefix, and be it first.
    const plant = cookieOf(await secure.nobody.post("//console/session", { key: secure.adminKey })).replace("__Host-", "");
    expect((await secure.nobody.get("/tenant", { headers: { cookie: plant } })).status).toBe(401);
    expect((await secure.nobody.get("//console/session", { headers: { cookie: `${plant}; ${cookie}` } })).status).toBe(200);
    await secure.nobody.send("DELETE", "//console/session", {
      headers: { ...json, origin: "https://dpp.example", cookie: `${plant}; ${cookie}` },
      body: "{}",
    });
    expect((await secure.nobody.get("/tenant", { headers: { cookie } })).status).toBe(401); // it was this one that was signed out
  });

  test.each([
    ["nothing", {}],
    ["both ways at once", { key: "k", client_id: "c", client_secret: "s" }],
    ["half a client", { client_id: "c" }],
    ["a secret alone", { client_secret: "s" }],
    ["something else", { password: "x" }],
  ])("with %s is a 400 that names a field", async (_what, body) => {
    const { status, body: answer } = await signIn(body);
    expect([status, answer.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  });

  test("with what isn't a credential, or no longer one, is a 401 without a cookie", async () => {
    const { secret, id } = await keyOf(w.admin, ["aidc:read"]);
    await w.admin.delete(`/api-keys/${id}`);
    const client = (await w.admin.post("/oauth/clients", { name: "c", scopes: ["aidc:read"] })).body;
    const wrong = [{ key: "nobody's key at all, long enough" }, { key: secret }, { client_id: client.client_id, client_secret: secret }];
    for (const body of wrong) {
      const answer = await signIn(body);
      expect([answer.status, answer.body.error.code, answer.headers.get("set-cookie")]).toEqual([401, "UNAUTHORIZED", null]);
    }
    const told = (await w.admin.get("/audit-logs?action=auth.token_refused")).body.data;
    expect(told.map(({ subject }: { subject: string }) => subject)).toContain(client.client_id);
  });

  test("a sandbox past its end isn't let in, and a session of before shows why", async () => {
    const { adminKey } = (
      await w.admin.post("/tenants", { name: "brief", sandbox: true, expiresAt: new Date(Date.now() + 60_000).toISOString() })
    ).body;
    const page = await signedIn(adminKey.secret);
    w.later(61_000);
    expect((await signIn({ key: adminKey.secret })).body.error.code).toBe("SANDBOX_EXPIRED");
    expect((await page.get("/products")).body.error.code).toBe("SANDBOX_EXPIRED");
    expect((await page.get("//console/session")).status).toBe(200);
  });

  test("is told to the audit log, and so is signing out", async () => {
    const { adminKey } = (await w.admin.post("/tenants", { name: "told" })).body;
    const page = await signedIn(adminKey.secret);
    expect((await page.delete("//console/session", home)).status).toBe(204);
    const { data } = (await w.as(adminKey.secret).get("/audit-logs?class=auth")).body;
    expect(data.map(({ action }: { action: string }) => action)).toEqual(["auth.session_ended", "auth.session_begun"]);
  });
});

describe("a session", () => {
  test("does what its credential may, and nothing of another tenant's", async () => {
    const [one, other] = [await printShop(w), await printShop(w)];
    const job = await one.issue();
    const page = await signedIn((await keyOf(one.admin, ["aidc:read"])).secret);
    const foreign = await signedIn((await keyOf(other.admin, ["aidc:read"])).secret);
    expect((await page.get(`/aidc/jobs/${job.job_ref}`)).status).toBe(200);
    expect((await foreign.get(`/aidc/jobs/${job.job_ref}`)).status).toBe(404);
    const denied = await page.post("/aidc/jobs", { gtin: one.gtin, serial: "1" }, home);
    expect([denied.status, denied.body.error.details]).toEqual([403, { required: ["aidc:write"], available: ["aidc:read"] }]);
  });

  test.each(["rotate", "revoke"])("dies at once when its key is %sd", async (how) => {
    const { secret, id } = await keyOf(w.admin, ["aidc:read"]);
    const page = await signedIn(secret);
    expect((await page.get("/aidc/summary")).status).toBe(200);
    await (how === "rotate" ? w.admin.post(`/api-keys/${id}/rotate`) : w.admin.delete(`/api-keys/${id}`));
    expect((await page.get("/aidc/summary")).status).toBe(401);
  });

  test("is over after its life, and when it is signed out", async () => {
    const { secret } = await keyOf(w.admin, ["aidc:read"]);
    const [short, long] = [await signedIn(secret), await signedIn(secret)];
    const out = await short.delete("//console/session", home);
    expect(out.headers.get("set-cookie")).toMatch(/^imprimatur_console=; Max-Age=0; /);
    expect((await short.get("/aidc/summary")).status).toBe(401);
    expect((await long.get("/aidc/summary")).status).toBe(200);
    w.later(limits.CONSOLE_SESSION_LIFE_S * 1000);
    expect((await long.get("/aidc/summary")).status).toBe(401);
  });

  test("yields to a credential that is sent beside it", async () => {
    const page = await signedIn((await keyOf(w.admin, ["aidc:read"])).secret);
    expect((await page.get("/products", { headers: { authorization: `Bearer ${w.adminKey}` } })).status).toBe(200);
    expect((await page.get("/aidc/jobs", { headers: { authorization: "Bearer nonsense" } })).status).toBe(401);
  });

  test("opens nothing where it is sent as a key, though it was seen as a cookie just now", async () => {
    const cookie = cookieOf(await signIn({ key: w.adminKey }));
    expect((await browse(cookie).get("/tenant")).status).toBe(200);
    expect((await w.as(cookie.slice(cookie.indexOf("=") + 1)).get("/tenant")).status).toBe(401);
  });

  test("isn't in the store in a form that signs anybody in", async () => {
    const answer = await signIn({ key: w.adminKey });
    const [, cookie = ""] = cookieOf(answer).split("=");
    const rows = await w.store.read("sessions", ({ db }) => db.values("SELECT * FROM console_sessions"));
    expect(rows.length).toBeGreaterThan(0);
    expect(JSON.stringify(rows)).not.toContain(cookie);
    expect(w.logged().join("\n")).not.toContain(cookie);
  });

  test("is the browser's only one: signing in again ends the one before", async () => {
    const { secret } = await keyOf(w.admin, ["aidc:read"]);
    const first = await signIn({ key: secret });
    const second = await signIn({ key: secret }, { cookie: cookieOf(first) });
    expect((await browse(cookieOf(first)).get("/aidc/summary")).status).toBe(401);
    expect((await browse(cookieOf(second)).get("/aidc/summary")).status).toBe(200);
  });

  test("survives a restart", async () => {
    const page = await signedIn((await keyOf(w.admin, ["aidc:read"])).secret);
    await w.restart();
    expect((await page.get("/aidc/summary")).status).toBe(200);
  });
});

describe("a request that rides on the cookie", () => {
  const issue = { name: "made by a forged request", scopes: ["aidc:read"] };
  test.each<[string, Record<string, string>, number]>([
    ["from the page itself", { ...json, origin: "self" }, 201],
    ["from the page itself, said by the browser", { ...json, "sec-fetch-site": "same-origin" }, 201],
    ["from another site", { ...json, origin: "https://evil.example" }, 403],
    ["from a sandboxed frame", { ...json, origin: "null" }, 403],
    ["from another port of the host", { ...json, origin: "http://127.0.0.1:1" }, 403],
    ["from elsewhere, as the browser says", { ...json, origin: "self", "sec-fetch-site": "cross-site" }, 403],
    ["from a sibling, as the browser says", { ...json, "sec-fetch-site": "same-site" }, 403],
    ["from nowhere", json, 403],
    ["as a form could send it", { "content-type": "text/plain", origin: "self" }, 415],
    ["without a type", { "content-type": "", origin: "self" }, 403],
  ])("%s", async (_what, given, status) => {
    const page = await signedIn(w.adminKey);
    const headers = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value === "self" ? w.url : value]));
    const answer = await page.send("POST", "/api-keys", { body: JSON.stringify(issue), headers });
    expect(answer.status === 415 ? 403 : answer.status).toBe(status === 415 ? 403 : status);
    if (status === 403) expect(answer.body.error.code).toBe("CROSS_SITE");
  });

  test("reads nothing for a page of another site", async () => {
    const page = await signedIn(w.adminKey);
    const asked = (headers: Record<string, string>) => page.get("/tenant", { headers });
    expect((await asked({ "sec-fetch-site": "cross-site" })).body.error.code).toBe("CROSS_SITE");
    expect((await asked({ origin: "https://evil.example" })).body.error.code).toBe("CROSS_SITE");
    expect((await asked({ "sec-fetch-site": "none" })).status).toBe(200);
    expect((await asked({ "sec-fetch-site": "same-origin" })).headers.get("access-control-allow-origin")).toBeNull();
  });

  test("another site can't sign somebody in either", async () => {
    const answer = await signIn({ key: w.adminKey }, { origin: "https://evil.example" });
    expect([answer.body.error.code, answer.headers.get("set-cookie")]).toEqual(["CROSS_SITE", null]);
  });
});

describe("the stream", () => {
  const open: Followed[] = [];
  afterAll(() => open.forEach((followed) => followed.close()));
  const watch = async (page: string, headers: Record<string, string> = {}) => {
    const followed = await follow(`${w.url}/console/events`, { cookie: page, ...headers });
    open.push(followed);
    return followed;
  };
  const cookieFor = async (secret: string) => cookieOf(await signIn({ key: secret }));
  const states = ({ data }: Heard) => (data as { states: Record<string, number> }).states;

  test("tells the floor in figures at once, and again when a label is sealed", async () => {
    const shop = await printShop(w);
    const seen = await watch(await cookieFor((await keyOf(shop.admin, ["aidc:read"])).secret));
    expect(seen.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(states(await seen.heard(({ event }) => event === "summary"))).toMatchObject({ QUEUED: 0, SEALED: 0 });
    await shop.issue();
    await shop.device.seal(await shop.device.claim());
    const summary = await seen.heard((heard) => heard.event === "summary" && states(heard)["SEALED"] === 1);
    expect(summary.data).toMatchObject({ sealed_by_hour: expect.arrayContaining([expect.objectContaining({ labels: 1 })]) });
    const { data } = await seen.heard(({ event }) => event === "changed");
    expect((data as { topics: string[] }).topics).toEqual(["print"]);
    const { data: told } = await seen.heard(({ event, data }) => event === "devices" && JSON.stringify(data).includes('"online"'));
    expect(told).toMatchObject({ devices: [{ id: shop.device.id, status: "online" }], removed: [] });
  });

  test("tells nobody of what isn't theirs to know: by scope, by tenant", async () => {
    const shop = await printShop(w);
    const blind = await watch(await cookieFor((await keyOf(shop.admin, ["products:read"])).secret));
    const foreign = await watch(await cookieFor((await keyOf(w.admin, ["aidc:read"])).secret));
    const seen = await watch(await cookieFor((await keyOf(shop.admin, ["aidc:read"])).secret));
    await shop.issue();
    await seen.heard((heard) => heard.event === "summary" && states(heard)["QUEUED"] === 1);
    await shop.admin.patch(`/products/${shop.product.id}`, { name: "Kettle 1.8" });
    await blind.heard(({ event, data }) => event === "changed" && (data as { topics: string[] }).topics.includes("product"));
    expect(blind.all().map(({ event }) => event)).not.toContain("summary");
    expect(JSON.stringify(foreign.all())).not.toContain(shop.device.id);
    expect(foreign.all().some((heard) => heard.event === "summary" && states(heard)["QUEUED"] === 1 && states(heard)["SEALED"] === 0)).toBe(
      false,
    );
  });

  test("a passport that was asked for is told of again once it is made", async () => {
    const shop = await printShop(w);
    const seen = await watch(await cookieFor(shop.adminKey));
    await seen.heard(({ event }) => event === "summary");
    const told = () => seen.all().filter(({ event, data }) => event === "changed" && JSON.stringify(data).includes('"passport"')).length;
    const newProduct = productMaker(shop.admin);
    for (let i = 0; i < 5; i += 1) {
      const { id: productId } = await newProduct({ gtin: gtinOf(710_000 + i) }, "none");
      for (const stage of ["validated", "ready_for_dpp"]) await shop.admin.post(`/products/${productId}/lifecycle/transition`, { stage });
      let [looks, state] = [told(), ""];
      const { data } = (await shop.admin.post("/passports/generate", { productId })).body;
      // As the page does: it looks when it is told, and not otherwise.
      const shown = async () => {
        if (told() > looks) {
          looks = told();
          state = (await shop.admin.get(`/passports/${data.id}`)).body.status;
        }
        return state;
      };
      await expect.poll(shown, { timeout: 10_000, interval: 5 }).toBe("draft");
    }
  });

  test("a device that is removed is told as gone", async () => {
    const shop = await printShop(w);
    const seen = await watch(await cookieFor((await keyOf(shop.admin, ["aidc:read"])).secret));
    const { id } = await shop.newDevice("line 9");
    await seen.heard(({ event, data }) => event === "devices" && JSON.stringify(data).includes(id));
    await shop.admin.delete(`/devices/${id}`);
    const gone = await seen.heard(({ event, data }) => event === "devices" && (data as { removed: string[] }).removed.includes(id));
    expect((gone.data as { devices: { id: string }[] }).devices.map((device) => device.id)).not.toContain(id);
  });

  test("where more stations fall silent at once than it tells one by one, it says that their list is to be read again", async () => {
    const own = await world({ clock: "stopped" });
    const { id: tenantId, secret, admin } = await own.tenant("power cut");
    const MANY = 2_100;
    await manyStations(own, tenantId, MANY, (_n, now) => ({
      report: { status: "online" },
      lastSeenAt: now - limits.DEVICE_SILENCE_MAX_MS + 30_000,
      updatedAt: now - 3_600_000,
    }));
    const seen = await follow(`${own.url}/console/events`, { authorization: `Bearer ${secret}` });
    open.push(seen);
    const isToRead = ({ event, data }: Heard) => event === "changed" && (data as { topics: string[] }).topics.includes("stations");
    await seen.heard(({ event }) => event === "summary"); // it has looked at the stations
    expect(seen.all().some(isToRead)).toBe(false);
    own.later(31_000);
    await seen.heard(isToRead);
    // As the page does: it looks when it is told.
    const statuses: string[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const page: Answer = await admin.get(`/devices?limit=200${cursor && `&cursor=${cursor}`}`);
      statuses.push(...page.body.data.map(({ status }: { status: string }) => status));
      cursor = page.body.nextCursor;
    }
    expect([statuses.length, new Set(statuses)]).toEqual([MANY, new Set(["offline"])]);
  });

  test("of stations that say much of themselves some are told one by one, and of the others that their list is to be read again", async () => {
    const own = await world({ clock: "stopped" });
    const { id: tenantId, secret } = await own.tenant("wordy");
    const printers = [{ name: "zd", status: "ready", more: "x".repeat(60_000) }];
    await manyStations(own, tenantId, 40, (_n, now) => ({ report: { printers }, lastSeenAt: now, updatedAt: now }));
    const seen = await follow(`${own.url}/console/events`, { authorization: `Bearer ${secret}` });
    open.push(seen);
    await seen.heard(({ event, data }) => event === "changed" && (data as { topics: string[] }).topics.includes("stations"));
    const told = seen.all().filter(({ event }) => event === "devices");
    expect(told.map(({ data }) => (data as { devices: unknown[] }).devices.length)).toEqual([17]); // a megabyte
  });

  test("where stations say more than a look can go through, those that say little are told, and of the others that their list is to be read again", async () => {
    const own = await world({ clock: "stopped" });
    const { id: tenantId, secret, admin } = await own.tenant("too wordy");
    const isWordy = (n: number) => n % 20 > 0;
    const printers = (n: number) => [{ name: "zd", status: "ready", more: "x".repeat(isWordy(n) ? 60_000 : 1_000) }];
    await manyStations(own, tenantId, 200, (n, now) => ({ report: { printers: printers(n) }, lastSeenAt: now, updatedAt: now }));
    const seen = await follow(`${own.url}/console/events`, { authorization: `Bearer ${secret}` });
    open.push(seen);
    await seen.heard(({ event, data }) => event === "changed" && (data as { topics: string[] }).topics.includes("stations"));
    const told = seen.all().filter(({ event }) => event === "devices");
    expect(told.map(({ data }) => (data as { devices: unknown[] }).devices.length)).toEqual([10]);
    const first: Answer = await admin.get("/devices?limit=200"); // which ends before it has as many as it may
    const second: Answer = await admin.get(`/devices?limit=200&cursor=${first.body.nextCursor}`);
    expect([first, second].map(({ body }) => body.data.length)).toEqual([148, 52]);
    expect(second.body.nextCursor).toBe(null);
  });

  describe("where the store fails while it looks", () => {
    type Beat = { news?: { removed: string[] } };
    /** The pulse of this world's store, of whose looks some are lost on their way back. */
    async function pulseThat(isLost: (beat: Beat) => boolean, ...tenants: string[]): Promise<(() => string)[]> {
      const read: Store["read"] = async (label, work) => {
        const said = await w.store.read(label, work);
        if (isLost(said as Beat)) throw new Error("the line to the store broke");
        return said;
      };
      const pulse = startPulse({ ...w.store, read }, pino({ level: "silent" }));
      onTestFinished(pulse.stop);
      return tenants.map((tenantId) => {
        let heard = "";
        const credential = { kind: "system", id: "system", name: "test" } as const;
        const stream = pulse.follow({ tenantId, credential, scopes: ["*:*"], deviceId: null, tier: "standard" }, async () => true);
        stream.setEncoding("utf8").on("data", (text: string) => (heard += text));
        return () => heard;
      });
    }

    test("what it had seen by then it says to read again", async () => {
      const shop = await printShop(w);
      let lost = 0;
      const [heard] = await pulseThat(({ news }) => (news?.removed.length ?? 0) > 0 && (lost += 1) === 1, shop.tenantId);
      await expect.poll(heard as () => string).toContain("event: summary");
      await expect.poll(heard as () => string).toContain(shop.device.id);
      await shop.admin.delete(`/devices/${shop.device.id}`);
      await expect.poll(heard as () => string).toContain('"stations"');
      expect(lost).toBe(1);
    });

    test("another tenant isn't held up", async () => {
      const [here, there] = [await printShop(w), await printShop(w)];
      let looks = 0;
      const [failing, well] = await pulseThat(() => (looks += 1) % 2 === 1, here.tenantId, there.tenantId);
      await expect.poll(well as () => string).toContain("event: summary");
      expect((failing as () => string)()).not.toContain("event: summary");
    });
  });

  test(
    "goes on where the clock is set back by an hour: with its stations, and the figures of the hour that it is then",
    { timeout: 60_000 },
    async () => {
      const own = await world();
      const shop = await printShop(own);
      const seen = await follow(`${own.url}/console/events`, { authorization: `Bearer ${shop.adminKey}` });
      open.push(seen);
      await seen.heard(({ event }) => event === "summary");
      await expect.poll(() => seen.all().some(({ event }) => event === "devices")).toBe(true); // it has looked at the stations
      own.later(-3_600_000);
      const { id } = await shop.newDevice("line 9");
      await seen.heard(({ event, data }) => event === "devices" && JSON.stringify(data).includes(id));
      const hours = seen
        .all()
        .flatMap((heard) =>
          heard.event === "summary" ? [(heard.data as { sealed_by_hour: { hour: string }[] }).sealed_by_hour.at(-1)?.hour] : [],
        );
      expect(new Set(hours).size).toBeGreaterThan(1);
    },
  );

  test("says that it is alive, whose it is and what time it is there, at first and every 15 s, however little there is to say", async () => {
    const own = await world({ clock: "stopped" });
    const { adminKey } = (await own.admin.post("/tenants", { name: "nothing happens" })).body;
    const { id: tenant } = (await own.as(adminKey.secret).get("/tenant")).body;
    const seen = await follow(`${own.url}/console/events`, { authorization: `Bearer ${adminKey.secret}` });
    open.push(seen);
    const alive = () => seen.all().flatMap((heard) => (heard.event === "alive" ? [heard.data as { tenant: string; at: string }] : []));
    for (let beats = 1; beats <= 3; beats += 1) {
      await expect.poll(() => alive().length).toBe(beats);
      own.later(BEAT_MS);
    }
    expect(seen.all()[0]?.event).toBe("alive"); // before anything that is only that tenant's to know
    expect(new Set(alive().map((heard) => heard.tenant))).toEqual(new Set([tenant]));
    const [first = 0, second = 0] = alive().map(({ at }) => Date.parse(at));
    expect(second - first).toBe(BEAT_MS);
  });

  test("ends with the session: revoked, it says so and closes", async () => {
    const { secret, id } = await keyOf(w.admin, ["aidc:read"]);
    const seen = await watch(await cookieFor(secret));
    await seen.heard(({ event }) => event === "summary");
    await w.admin.delete(`/api-keys/${id}`);
    expect((await seen.heard(({ event }) => event === "end")).data).toEqual({});
    expect(await seen.closed).toBeUndefined();
  });

  test("isn't for those who aren't signed in, nor for other sites", async () => {
    expect((await w.nobody.get("//console/events")).status).toBe(401);
    const cookie = await cookieFor(w.adminKey);
    const answer = await w.nobody.get("//console/events", { headers: { cookie, "sec-fetch-site": "cross-site" } });
    expect(answer.body.error.code).toBe("CROSS_SITE");
  });

  test("is kept for so many consoles of a tenant, and refused to more", async () => {
    const shop = await printShop(w);
    const cookie = await cookieFor((await keyOf(shop.admin, ["aidc:read"])).secret);
    const many: Followed[] = [];
    for (let i = 0; i < limits.CONSOLE_STREAMS_MAX_ITEMS; i += 1) many.push(await follow(`${w.url}/console/events`, { cookie }));
    const refused = await fetch(`${w.url}/console/events`, { headers: { cookie } });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "10"]);
    for (const followed of many) followed.close();
    await expect
      .poll(
        async () =>
          await follow(`${w.url}/console/events`, { cookie }).then(
            (f) => (f.close(), 200),
            () => 503,
          ),
      )
      .toBe(200);
  });

  test("isn't begun for who asks for its headers only, however often", async () => {
    const { adminKey } = (await w.admin.post("/tenants", { name: "headers only" })).body;
    const headers = { authorization: `Bearer ${adminKey.secret}` };
    for (let i = 0; i < limits.CONSOLE_STREAMS_MAX_ITEMS; i += 1) {
      const { status, headers: told } = await fetch(`${w.url}/console/events`, { method: "HEAD", headers });
      expect([status, told.get("content-type"), told.get("content-length")]).toEqual([200, "text/event-stream; charset=utf-8", null]);
    }
    (await follow(`${w.url}/console/events`, headers)).close();
  });

  test("doesn't hold up the end of the cloud", async () => {
    const own = await world();
    const followed = await follow(`${own.url}/console/events`, { authorization: `Bearer ${own.adminKey}` });
    await own.restart(); // which waits for the end
    expect(await followed.closed).toBeUndefined();
  });
});

describe("the summary", () => {
  const HOUR_MS = 3_600_000;
  const hourOf = (at: string) => new Date(Date.parse(at) - (Date.parse(at) % HOUR_MS)).toISOString();
  type Hours = { at: string; sealed_by_hour: { hour: string; labels: number }[] };
  const sealed = ({ sealed_by_hour }: Hours) => sealed_by_hour.filter(({ labels }) => labels > 0);

  test("counts what is open, what has ended, and what waits where", async () => {
    const shop = await printShop(w);
    await shop.issue({ station: "line-1" });
    await shop.issue({ station: "line-2" });
    await shop.issue();
    const { body: job } = await shop.device.seal(await shop.device.claim());
    const { job_ref } = await shop.issue();
    await shop.admin.post(`/aidc/jobs/${job_ref}/cancel`, {});
    const { body } = await shop.admin.get("/aidc/summary");
    expect(body.states).toMatchObject({ QUEUED: 2, SEALED: 1, CANCELLED: 1, CLAIMED: 0, DEAD_LETTER: 0 });
    expect(body.waiting).toEqual([
      { station: "line-1", jobs: 1 },
      { station: "line-2", jobs: 1 },
    ]);
    expect([body.capped, body.waiting_capped, body.devices]).toEqual([[], false, { all: 1, heard_of: 1 }]);
    expect([body.sealed_by_hour.length, body.sealed_by_hour.at(-1).hour]).toEqual([24, hourOf(body.at)]);
    expect(sealed(body)).toEqual([{ hour: hourOf(job.updated_at), labels: 1 }]);
  });

  test("an hour later the label stands in the hour before, and the station has fallen silent", async () => {
    const shop = await printShop(w);
    await shop.issue();
    const { body: job } = await shop.device.seal(await shop.device.claim());
    w.later(HOUR_MS);
    const { body } = await shop.admin.get("/aidc/summary");
    expect(sealed(body)).toEqual([{ hour: hourOf(job.updated_at), labels: 1 }]);
    expect(body.sealed_by_hour.at(-1)).toEqual({ hour: hourOf(body.at), labels: 0 });
    expect(body.devices).toEqual({ all: 1, heard_of: 0 });
  });

  test("a job that is buried counts as one, with no way back", async () => {
    const shop = await printShop(w);
    const job = await shop.issue({ max_attempts: 1 });
    await shop.device.say(await shop.device.claim(), { status: "FAILED", reason: "ribbon out" });
    await expect.poll(async () => (await shop.admin.get(`/aidc/jobs/${job.job_ref}`)).body.state).toBe("DEAD_LETTER");
    expect((await shop.admin.get("/aidc/summary")).body.states).toMatchObject({ FAILED: 0, DEAD_LETTER: 1 });
    expect((await shop.admin.get("/aidc/jobs?state=DEAD_LETTER")).body.data).toMatchObject([
      { job_ref: job.job_ref, reason: "ribbon out" },
    ]);
  });
});

test("imports are listed, newest first, without the faults of their rows", async () => {
  const { admin } = await w.tenant("importer");
  const csv = { body: "name,description,gtin,serialNumber\nPot,short,1,1\n", headers: { "content-type": "text/csv" } };
  const ids = [];
  for (let i = 0; i < 2; i += 1) ids.push((await admin.send("POST", "/imports?category=electronics", csv)).body.data.id);
  await expect
    .poll(async () => (await admin.get("/imports")).body.data.map(({ status }: { status: string }) => status))
    .toEqual(["completed", "completed"]);
  const { data } = (await admin.get("/imports")).body;
  expect(data.map(({ id, failed, errors }: { id: string; failed: number; errors: unknown[] }) => [id, failed, errors])).toEqual(
    ids.toReversed().map((id) => [id, 1, []]),
  );
  expect((await w.admin.get("/imports")).body.data.map(({ id }: { id: string }) => id)).not.toContain(ids[0]);
});

test("a product's passport is found by its product", async () => {
  const [one, other] = [await printShop(w), await printShop(w)];
  const found = await one.admin.get(`/passports?productId=${one.product.id}`);
  expect(found.body.data.map(({ id }: { id: string }) => id)).toEqual([one.passportId]);
  expect((await other.admin.get(`/passports?productId=${one.product.id}`)).body.data).toEqual([]);
});

describe("the pages", () => {
  const ask = (path: string, headers: Record<string, string> = {}, method = "GET") => fetch(w.url + path, { method, headers });

  test("come with a policy that lets nothing in but them", async () => {
    const page = await ask("/console");
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
    const policy = (page.headers.get("content-security-policy") ?? "").split("; ");
    expect(policy).toEqual(
      expect.arrayContaining(["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"]),
    );
    expect(await page.text()).not.toMatch(/<script(?! type="module" src=)|<style| style=| on\w+=/);
  });

  test("are sent once, and packed where that is wanted", async () => {
    const module = await ask("/console/app.js", { "accept-encoding": "gzip" });
    expect([module.headers.get("content-type"), module.headers.get("content-encoding")]).toEqual([
      "text/javascript; charset=utf-8",
      "gzip",
    ]);
    const etag = module.headers.get("etag") ?? "";
    expect((await ask("/console/app.js", { "accept-encoding": "gzip", "if-none-match": etag })).status).toBe(304);
    const plain = await ask("/console/app.js", { "accept-encoding": "identity", "if-none-match": etag });
    expect([plain.status, plain.headers.get("content-encoding")]).toEqual([200, null]);
    const script = await module.text();
    expect(await plain.text()).toBe(script);
    expect(gzipSync(script).length).toBeLessThan(150_000);
  });

  test.each([
    "/console/app",
    "/console/app.js/",
    "/console/main.ts",
    "/console/tsconfig.json",
    "/console/..%2fconfig.ts",
    "/console/nothing",
    "/console/",
  ])("%s isn't one of them", async (path) => {
    expect((await ask(path)).status).toBe(404);
  });

  test("are read, not written", async () => {
    const answer = await ask("/console", {}, "PUT");
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    expect((await ask("/console", {}, "HEAD")).status).toBe(200);
  });
});
