// Bad input: every route answers a typed 4xx, never a 5xx, never a hang, never an untyped body.
import { connect } from "node:net";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { world } from "../world.ts";

const w = await world();
const json = { "content-type": "application/json" };
const raw = (body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = json) =>
  w.admin.send("POST", "/api-keys", { body, headers });

test.each([
  ["broken JSON", "{", 400, "MALFORMED_JSON"],
  ["no JSON at all", "name=x", 400, "MALFORMED_JSON"],
  ["an escape where no string is", '{"name":"\\"x","scopes":["aidc:read"]\\u007d', 400, "MALFORMED_JSON"],
  ["bytes that aren't UTF-8", new Uint8Array([0x22, 0xff, 0x22]), 400, "MALFORMED_JSON"],
  ["a prototype key", '{"__proto__":{"a":1},"name":"x","scopes":["aidc:read"]}', 400, "VALIDATION_ERROR"],
  ["a constructor key", '{"constructor":{"prototype":{}},"name":"x","scopes":["aidc:read"]}', 400, "VALIDATION_ERROR"],
  ["a NUL", '{"name":"a\\u0000b","scopes":["aidc:read"]}', 400, "VALIDATION_ERROR"],
  ["half a surrogate pair", '{"name":"a\\ud800b","scopes":["aidc:read"]}', 400, "VALIDATION_ERROR"],
  ["deep nesting", `{"name":${"[".repeat(50_000)}${"]".repeat(50_000)}}`, 400, "VALIDATION_ERROR"],
  ["sixty thousand names", `{${Array.from({ length: 60_000 }, (_, n) => `"n${n}":1`).join()}}`, 400, "VALIDATION_ERROR"],
  ["a name twice, the last one unfit", '{"name":"x","scopes":["aidc:read"],"scopes":7}', 400, "VALIDATION_ERROR"],
  ["a number for a string", '{"name":7,"scopes":["aidc:read"]}', 400, "VALIDATION_ERROR"],
  ["a list for an object", "[]", 400, "VALIDATION_ERROR"],
  ["null", "null", 400, "VALIDATION_ERROR"],
  ["nothing", "", 400, "VALIDATION_ERROR"],
  ["two megabytes", `{"name":"${"x".repeat(2_000_000)}"}`, 413, "PAYLOAD_TOO_LARGE"],
])("%s is refused with its code", async (_what, body, status, code) => {
  const answer = await raw(body);
  expect([answer.status, answer.body.error.code]).toEqual([status, code]);
  expect(answer.headers.get("x-correlation-id")).toMatch(/^[0-9a-f-]{36}$/);
});

const cut = `${"x".repeat(49)}😀`;
const kettle = { name: "Kettle", description: "An electric kettle", category: cut, gtin: gtinOf(7), serialNumber: "K1", extensions: {} };
test.each([
  ["a body that begins with an emoji", "/products", "😀"],
  ["half a pair as a field's name", "/products", '{"\\ud83d":1}'],
  ["a category that is cut in an emoji", "/products", JSON.stringify(kettle)],
  ["an item's category that is", "/products/batch", JSON.stringify({ items: [kettle] })],
  ["a grant that is", "/oauth/token", JSON.stringify({ grant_type: `x${"😀".repeat(90)}` })],
])("what is quoted in a refusal is text that any parser takes: %s", async (_what, path, body) => {
  const { text } = await w.admin.send("POST", path, { body, headers: json });
  expect(text).not.toMatch(/\\ud[89a-f]/i); // JSON.stringify escapes halves only
});

test("who sends too large a body hears so, can send it to its end, and goes on over the same connection", async () => {
  const { hostname, port } = new URL(w.url);
  const large = 8_000_000;
  const first = `POST /v1/dppsByProductIds HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: ${large}\r\n\r\n`;
  const next = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
  const heard = await new Promise<string>((resolve, reject) => {
    let all = "";
    const socket = connect(Number(port), hostname, () => socket.write(first));
    socket.once("data", () => socket.write("x".repeat(large) + next));
    socket.on("data", (chunk: Buffer) => (all += chunk.toString()));
    socket.on("error", reject);
    socket.on("close", () => resolve(all));
  });
  expect([...heard.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(["413", "200"]);
});

test.each([
  ["GET", "/carriers/batch", "POST"],
  ["HEAD", "/carriers/print-status", "POST"],
  ["GET", "/aidc/jobs/claim", "POST"],
  ["PATCH", "/products/batch", "POST"],
  ["DELETE", "/products/categories", "GET, HEAD"],
])("%s %s is a wrong verb and no question about an id of that name", async (method, path, allowed) => {
  const answer = await w.admin.send(method, path);
  expect([answer.status, answer.headers.get("allow")]).toEqual([405, allowed]);
});

test.each([
  ["GET", "/products%2F1", 404, null],
  ["POST", "/products%2f1", 404, null],
  ["POST", "/products/a%2Fb", 405, "DELETE, GET, HEAD, PATCH, PUT"],
  ["PUT", "/pr%6Fducts", 405, "GET, HEAD, POST"],
])("%s %s: an encoded slash parts no path", async (method, path, status, allowed) => {
  const answer = await w.admin.send(method, path);
  expect([answer.status, answer.headers.get("allow")]).toEqual([status, allowed]);
});

test.each([
  ["POST", "/dpps", `{"productId":"019a0000-0000-7000-8000-000000000000","content":{"weight":[1e400]}}`, "content.weight.0"],
  ["POST", "/epcis/events", `{"type":"ObjectEvent","ex:weight":-1e400}`, "ex:weight"],
])("a number that JSON can't give back is refused by name: %s %s", async (method, path, body, field) => {
  const answer = await w.admin.send(method, path, { body, headers: json });
  expect([answer.status, answer.body.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  expect(answer.body.error.details.fields).toContainEqual(expect.objectContaining({ field, rule: "number" }));
});

const shell = {
  "@context": ["https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld"],
  type: "EPCISDocument",
  schemaVersion: "2.0",
  creationDate: "2026-11-21T09:00:00Z",
};
test.each([
  ["/epcis/events", { type: "ObjectEvent", "https://ex.com/v1.0/a": 0 }, "https://ex.com/v1.0/a"],
  ["/dpps", { productId: "019a0000-0000-7000-8000-000000000000", content: { "v1.0": 0 } }, "content"],
  ["/epcis/capture", { ...shell, epcisBody: { eventList: [{ type: "ObjectEvent", "https://ex.com/a": 0 }] } }, "epcisBody"],
])("what is nested too deep is told by the whole name of the field that it stands in: POST %s", async (path, body, field) => {
  const deep = JSON.stringify(body).replace(/0(?=[}\]]+$)/, `${"[".repeat(40)}${"]".repeat(40)}`);
  const answer = await w.admin.send("POST", path, { body: deep, headers: json });
  expect(answer.body.error.details.fields).toContainEqual(expect.objectContaining({ field, rule: "depth" }));
});

test.each([
  ["POST", "/webhooks", { url: "nowhere", events: [], description: "" }, ["url", "events", "description"]],
  ["PATCH", "/webhooks/x", { url: "https://user@erp.example.com/", enabled: 1 }, ["url", "enabled"]],
  ["POST", "/aidc/jobs", { gtin: "04006381333932", serial: 1, needs: ["ink"] }, ["gtin", "serial", "needs.0"]],
])("%s %s names every field that fails, by its shape or by its sense", async (method, path, body, fields) => {
  const answer = await w.admin.send(method, path, { json: body });
  expect([answer.status, answer.body.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  expect(answer.body.error.details.fields.map(({ field }: { field: string }) => field).toSorted()).toEqual(fields.toSorted());
});

test.each([
  ["/products?gtin=1&limit=0", ["gtin", "limit"]],
  ["/aidc/jobs?gtin=4006381333932&state=DONE", ["gtin", "state"]],
  ["/aidc/jobs?gtin=4006381333932", ["gtin"]],
])("GET %s names every parameter that fails: what is no GTIN is never looked for", async (path, fields) => {
  const answer = await w.admin.get(path);
  expect([answer.status, answer.body.error?.code]).toEqual([400, "VALIDATION_ERROR"]);
  expect(answer.body.error.details.fields.map(({ field }: { field: string }) => field).toSorted()).toEqual(fields);
});

const inspected = { type: "ObjectEvent", eventTime: "2026-11-21T09:00:00Z", eventTimeZoneOffset: "Z", action: "OBSERVE", epcList: ["a b"] };
test.each<
  [method: string, path: string, body: Record<string, unknown> | Uint8Array<ArrayBuffer> | undefined, status: number, words: string]
>([
  ["GET", "/products?limit=1&limit=2", undefined, 400, "limit: is there twice"],
  ["GET", "/products?status=Draft&status=Voided", undefined, 400, "status: is there twice"],
  ["GET", "/epcis/events?EQ_action=ADD&EQ_action=OBSERVE", undefined, 400, "EQ_action: is there twice"],
  ["GET", "/products?=1", undefined, 400, `"": isn't a known field`],
  ["GET", "/products?limits=1", undefined, 400, "limits: isn't a known field (did you mean limit?)"],
  ["POST", "/products/x/void", { reasons: "it is worn", colour: "red" }, 400, "reasons: isn't a known field (did you mean reason?)"],
  ["POST", "/products/x/void", { reasons: "it is worn", colour: "red" }, 400, "colour: isn't a known field"],
  ["POST", "/products/x/void", { reason: "" }, 400, "reason: must not be empty"],
  ["GET", "/log/proof?digest=ABC", undefined, 400, "digest: must be a SHA-256 in hex: 64 characters, 0 to 9 and a to f"],
  ["PATCH", "/tenant", { companyPrefixes: ["12345"] }, 400, "companyPrefixes.0: must be a GS1 company prefix, 6 to 12 digits"],
  ["POST", "/epcis/events", inspected, 400, "eventTimeZoneOffset: must be an offset from -14:00 to +14:00, such as +01:00, and never Z"],
  ["POST", "/epcis/events", inspected, 400, "epcList.0: must be a URI, percent-encoded where it isn't ASCII"],
  [
    "POST",
    "/epcis/capture",
    { ...shell, schemaVersion: "1.2", epcisBody: { eventList: [] } },
    400,
    "schemaVersion: must be 2.0, the version of EPCIS that is spoken here",
  ],
  ["POST", "/api-keys", { name: "x".repeat(2_000_000) }, 413, "the body is larger than 1048576 bytes"],
  ["PUT", `/aidc/evidence/${"0".repeat(64)}`, new Uint8Array(2_097_153), 413, "the body is larger than 2097152 bytes"],
  ["GET", `//01/${gtinOf(7)}/10/${"L".repeat(21)}`, undefined, 400, `the lot ${"L".repeat(21)} must be at most 20 characters`],
])("%s %s: a refusal says in words what to send: %#", async (method, path, sent, status, words) => {
  const body = sent instanceof Uint8Array ? { body: sent, headers: { "content-type": "image/png" } } : sent && { json: sent };
  const answer = await w.admin.send(method, path, body ?? {});
  expect([answer.status, answer.body.error.message.split("; ").includes(words) || answer.body.error.message]).toEqual([status, true]);
});

test.each(["1e1", "0x10", "%2B5", "+5", "%205", "5%20", "5.0", "0b11", ""])(
  "a number in a query is written in digits: limit=%s is refused",
  async (number) => {
    const lists = ["/products", "/aidc/jobs", "/webhooks", "/audit-logs", "/passports", "/devices", "/api-keys", "/aidc/orphans"];
    for (const list of lists) {
      const { status, body } = await w.admin.get(`${list}?limit=${number}`);
      const told = body.error?.details?.fields.map(({ field, message }: { field: string; message: string }) => [field, message]);
      expect([list, status, told]).toEqual([list, 400, [["limit", "must be a whole number written in digits, such as 50"]]]);
    }
    expect((await w.admin.get("/products?limit=5")).status).toBe(200);
  },
);

test("a query that can't be decoded is as malformed as a path is, whoever reads it", async () => {
  const gtin = gtinOf(77).padStart(14, "0");
  for (const path of ["/products", "/aidc/jobs", "//healthz", "/log/checkpoint", `//01/${gtin}`, "//p/x", "//v1/dpps/x"])
    for (const query of ["q=%E0%A4%A", "a=1&b=%", "%ff=1"]) {
      const { status, body } = await w.admin.get(`${path}?${query}`);
      expect([path, query, status, body.error?.code]).toEqual([path, query, 400, "MALFORMED_REQUEST"]);
    }
  expect((await w.admin.get("/products?q=50%25")).status).toBe(200);
});

test.each(["PATCH", "PUT"])(
  "%s of a product names its category's fields that fail beside the others, and no product before any of them",
  async (method) => {
    const product = { name: "Kettle", description: "An electric kettle", category: "electronics", serialNumber: "K1", extensions: {} };
    const { id } = (await w.admin.post("/products", { ...product, gtin: gtinOf(method.length) })).body;
    const unfit = { description: "short", gtin: "1", extensions: { repairabilityScore: 99, ink: 1 } };
    const fieldsOf = async (json: object) =>
      (await w.admin.send(method, `/products/${id}`, { json })).body.error.details.fields
        .map(({ field }: { field: string }) => field)
        .toSorted();
    expect(await fieldsOf(unfit)).toEqual(["description", "extensions.ink", "extensions.repairabilityScore", "gtin"]);
    expect(await fieldsOf({ ...unfit, category: "textile" })).toContain("extensions.repairabilityScore");
    expect(await fieldsOf({ ...unfit, category: "toys" })).toEqual(["description", "gtin"]);
    expect(await fieldsOf([])).toEqual(["body"]);
    expect((await w.admin.send(method, `/products/x`, { json: unfit })).status).toBe(404);
  },
);

test("every field that no database could hold is named, beside those that are wrong otherwise", async () => {
  const answer = await w.admin.post("/products", { name: "a\0", description: "b\0", extensions: { x: "\ud800", constructor: 1 } });
  const named = answer.body.error.details.fields.map(({ field }: { field: string }) => field);
  expect(named).toEqual(expect.arrayContaining(["name", "description", "extensions.x", "extensions.constructor", "category", "gtin"]));
});

test("a fault under a name of a megabyte is told by the beginning of that name, as are a hundred of them", async () => {
  const unfit = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`n${n}`, "\0"]));
  const body = (bytes: number) => ({ ["x".repeat(bytes)]: unfit });
  const refused = await w.nobody.post("/oauth/token", body(1_000_000));
  expect([refused.status, refused.body.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  expect(refused.text.length).toBeLessThan(200_000);
  const batch = await w.admin.post("/products/batch", { items: [body(16_000_000)] });
  expect([batch.status, batch.body.failed]).toEqual([200, 1]);
});

test.each([
  ["/compliance/evaluations", (sectors: string[]) => ({ sectors, productIds: ["x"] })],
  ["/api-keys", (scopes: string[]) => ({ name: "x", scopes })],
  ["/devices", (capabilities: string[]) => ({ name: "x", capabilities })],
  ["/aidc/jobs", (needs: string[]) => ({ gtin: "04006381333931", serial: "1", needs })],
])("POST %s: a list of a hundred thousand words, each another, is refused in no time", async (path, bodyOf) => {
  const words = Array.from({ length: 99_000 }, (_, n) => String(n));
  const began = performance.now();
  const answer = await w.admin.post(path, bodyOf(words));
  expect([answer.status, answer.body.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  expect(performance.now() - began).toBeLessThan(5_000);
});

test.each([
  ["inside one another", "[".repeat(8_000_000) + "]".repeat(8_000_000)],
  ["thirty deep", Array.from({ length: 260_000 }, () => "[".repeat(30) + "]".repeat(30)).join()],
])("millions of lists, %s, are refused before they are read", async (_how, lists) => {
  const { status, body } = await w.admin.send("POST", "/products/batch", { body: `{"items":[${lists}]}`, headers: json });
  expect([status, body.error?.code, body.error?.details.fields]).toEqual([
    400,
    "VALIDATION_ERROR",
    [{ field: "body", rule: "nested", message: "has more than 1000000 lists and objects in it" }],
  ]);
});

test("brackets in a text are no lists, whatever stands before them", async () => {
  const item = { name: "Kettle", description: '\\"[{'.repeat(2_500), category: "electronics", serialNumber: "1", extensions: {} };
  const items = Array.from({ length: 210 }, (_, n) => ({ ...item, gtin: gtinOf(700_000 + n) }));
  const { status, body } = await w.admin.post("/products/batch", { items });
  expect([status, body]).toEqual([200, { created: 210, failed: 0, errors: [] }]);
});

test("a form of more fields than anybody has is refused before they are parted", async () => {
  const headers = { "content-type": "application/x-www-form-urlencoded", "idempotency-key": "form" };
  const body = Array.from({ length: 150_000 }, (_, n) => n).join("&");
  const { status, body: told } = await w.nobody.send("POST", "/oauth/token", { headers, body });
  expect([status, told.error.code, told.error.message]).toEqual([400, "VALIDATION_ERROR", "body: has more than 100 fields"]);
});

test.each(["/01/04006381333931?a=http://b/01/1", "/01/04006381333931/21/a%2Fb", "/eh30141A80E0000A0000000001"])(
  "a link that is asked for with its host, as of a proxy, is the same link: %s",
  async (path) => {
    const answerTo = (url: string) => speak(`GET ${url} HTTP/1.1\r\nhost: x\r\nx-correlation-id: x\r\nconnection: close\r\n\r\n`);
    const [bare, whole] = await Promise.all([answerTo(path), answerTo(`http://x${path}`)]);
    const saying = (answer: string) => answer.slice(answer.indexOf("\r\n\r\n"));
    expect([whole.slice(0, 12), saying(whole)]).toEqual([bare.slice(0, 12), saying(bare)]);
  },
);

test("probes that find all well are told in the log at debug, so that a balancer doesn't fill it; what isn't well is", async () => {
  const heard = w.logged().length;
  await w.nobody.get("//readyz");
  await w.nobody.get("//nowhere");
  const told = () =>
    w
      .logged()
      .slice(heard)
      .filter((line) => line.includes('"event":"request"'));
  await expect.poll(() => told().some((line) => line.includes('"status":404'))).toBe(true);
  expect(told().filter((line) => line.includes("/readyz") && !line.includes('"level":"debug"'))).toEqual([]);
});

test("a wrong content type is 415, an unknown address 404, a wrong verb 405 with what is allowed", async () => {
  expect((await raw("<a/>", { "content-type": "text/xml" })).body.error.code).toBe("UNSUPPORTED_MEDIA_TYPE");
  expect((await raw("name=x", { "content-type": "application/x-www-form-urlencoded" })).status).toBe(415);
  // Where there is no body, what a client's library calls it says nothing: fetch sends an empty text as text/plain.
  for (const type of [
    "text/plain;charset=UTF-8",
    "application/octet-stream",
    "application/json; charset=utf-16",
    "application/json",
    "@@",
  ]) {
    const nothing = await raw("", { "content-type": type });
    expect([type, nothing.status, nothing.body.error.code]).toEqual([type, 400, "VALIDATION_ERROR"]);
    const { id } = (await w.admin.post("/api-keys", { name: "x", scopes: ["aidc:read"] })).body.data;
    expect([type, (await w.admin.delete(`/api-keys/${id}`, { "content-type": type })).status]).toEqual([type, 204]); // which has no length either
  }
  const unnamed = await speak(
    `POST /api/v2/api-keys HTTP/1.1\r\nhost: x\r\nx-api-key: ${w.adminKey}\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}`,
  );
  expect(unnamed).toMatch(/^HTTP\/1.1 415 [^]*say what the body is: Content-Type: application\/json/);
  expect((await w.admin.get("/nowhere")).body.error.code).toBe("NOT_FOUND");
  expect((await w.admin.get("//products")).body.error.message).toContain("those of the API begin with /api/v2,");
  const wrong = await w.admin.send("PUT", "/api-keys");
  expect([wrong.status, wrong.headers.get("allow"), wrong.body.error.code]).toEqual([405, "GET, HEAD, POST", "METHOD_NOT_ALLOWED"]);
  expect((await w.admin.send("DELETE", "/t%65nants")).headers.get("allow")).toBe("GET, HEAD, POST");
  expect((await w.admin.send("POST", "//docs")).headers.get("allow")).toBe("GET, HEAD");
  expect((await w.admin.get("//xwell-known/jwksXjson")).status).toBe(404);
  expect((await raw("{}", { ...json, "content-encoding": "br" })).status).toBe(415);
  // A client that codes all that it sends says so of nothing, too.
  const coded = { "content-encoding": "gzip" };
  expect((await w.admin.send("GET", "/tenant", { headers: coded })).status).toBe(200);
  expect((await raw("", coded)).status).toBe(400);
  expect((await raw("{}", { "content-type": "application/json; charset=utf-16" })).status).toBe(415);
  expect((await w.admin.get("//%zz")).body.error.code).toBe("MALFORMED_REQUEST");
  expect((await w.admin.get(`/api-keys/${"x".repeat(limits.PATH_PART_MAX_LENGTH + 1)}`)).body.error.code).toBe("URI_TOO_LONG");
  expect((await w.admin.get("/api-keys/a%00b")).status).toBe(400);
});

test.each([
  ["broken JSON", "{", json],
  ["bytes that aren't UTF-8", new Uint8Array([0xff]), json],
  ["two megabytes", "x".repeat(2_000_000), json],
  ["no type that anybody knows", "x", { "content-type": "@@" }],
])("an address that there isn't, and a wrong verb, are told as such whatever the body is: %s", async (_what, body, headers) => {
  const nowhere = await w.admin.send("POST", "/nowhere", { body, headers });
  const wrong = await w.admin.send("PUT", "/api-keys", { body, headers });
  const shadowed = await w.admin.send("PATCH", "/products/batch", { body, headers });
  expect([nowhere, wrong, shadowed].map(({ status, headers: said }) => [status, said.get("allow")])).toEqual([
    [404, null],
    [405, "GET, HEAD, POST"],
    [405, "POST"],
  ]);
});

test("QUERY, which has to say what its body is, is a wrong verb like any, said or not", async () => {
  const answer = await w.admin.send("QUERY", "/products");
  expect([answer.status, answer.headers.get("allow"), answer.body.error.code]).toEqual([405, "GET, HEAD, POST", "METHOD_NOT_ALLOWED"]);
  expect((await w.admin.send("QUERY", "/nowhere")).status).toBe(404);
});

test("no body is an empty object, and null isn't an object", async () => {
  expect((await w.admin.send("PATCH", "/tenant")).status).toBe(200);
  expect((await w.admin.send("PATCH", "/tenant", { body: "null", headers: json })).body.error.code).toBe("VALIDATION_ERROR");
  expect((await w.admin.send("POST", "/api-keys")).body.error.code).toBe("VALIDATION_ERROR");
});

/** What comes back for bytes that no client library would send. */
const speak = (bytes: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(w.url);
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    let heard = "";
    socket.on("data", (chunk: Buffer) => (heard += chunk.toString("utf8")));
    socket.on("close", () => resolve(heard));
    socket.on("error", (error: Error & { code?: string }) => error.code !== "ECONNRESET" && reject(error)); // who is refused early is reset
    socket.setTimeout(30_000, () => socket.destroy(new Error("a hang")));
  });

test("over-long headers and things that aren't HTTP get a typed answer as well", async () => {
  const long = await speak(`GET /healthz HTTP/1.1\r\nhost: a\r\nx: ${"y".repeat(20_000)}\r\n\r\n`);
  expect(long).toMatch(/^HTTP\/1\.1 431[^]*HEADERS_TOO_LARGE/);
  expect(await speak("GET /healthz HTTP/1.1\r\nx-correlation-id: no-host\r\nconnection: close\r\n\r\n")).toMatch(
    /^HTTP\/1\.1 400[^]*x-correlation-id: no-host\r\n[^]*MALFORMED_REQUEST/,
  );
  const mine = "x-correlation-id: order-7:a\r\n";
  expect(await speak(`GET /healthz HTTP/1.1\r\nhost: a\r\n${mine}expect: wonders\r\nconnection: close\r\n\r\n`)).toMatch(
    /^HTTP\/1\.1 400[^]*x-correlation-id: order-7:a\r\n[^]*MALFORMED_REQUEST/,
  );
  const proxied = await speak(`CONNECT a.b:443 HTTP/1.1\r\nhost: a\r\n${mine}\r\n`);
  expect(proxied).toMatch(/^HTTP\/1\.1 405[^]*x-correlation-id: order-7:a\r\n[^]*METHOD_NOT_ALLOWED/);
  expect(proxied).toMatch(/\r\nallow: (\w+, )+PUT\r\n/);
  expect(await speak("HELLO\r\n\r\n")).toMatch(/^HTTP\/1\.1 400[^]*"error":\{"code":"MALFORMED_REQUEST"/);
});

test("every answer carries security headers and the request's correlation id, if it is a safe one", async () => {
  const safe = await w.nobody.get("//healthz", { headers: { "x-correlation-id": "order-7:a" } });
  expect(safe.headers.get("x-correlation-id")).toBe("order-7:a");
  expect(["content-security-policy", "x-content-type-options", "strict-transport-security"].map((name) => safe.headers.get(name))).toEqual([
    "default-src 'none';frame-ancestors 'none';base-uri 'none'",
    "nosniff",
    "max-age=31536000; includeSubDomains",
  ]);
  const unsafe = await w.nobody.get("//healthz", { headers: { "x-correlation-id": "a b<script>" } });
  expect(unsafe.headers.get("x-correlation-id")).toMatch(/^[0-9a-f-]{36}$/);
});

test("metrics tell endpoints apart by their template", async () => {
  await w.admin.get("/api-keys/not-there");
  for (const method of ["GET", "OPTIONS"]) await w.nobody.send(method, "//p/not-there");
  const { text } = await w.admin.get("/metrics");
  expect(text).toContain('http_requests_total{method="GET",endpoint="/api/v2/api-keys/{id}",status="404"}');
  const pages = text
    .matchAll(/^http_requests_total\{method="(\w+)",endpoint="(\/p\/[^"]+)"/gm)
    .map(([, method, endpoint]) => `${method} ${endpoint}`);
  expect([...new Set(pages)].toSorted()).toEqual(["GET /p/{uid}", "OPTIONS /p/{uid}"]);
  expect(text).toMatch(/store_commit_duration_seconds_count [1-9]/);
  expect(text).not.toContain("not-there");
});

test.each([
  "/docs/nowhere",
  "/docs/static",
  "/docs/static/nowhere.css",
  "/docs/static/%2e%2e%2fpackage.json",
  "/docsandmore",
  "/console/nowhere.js",
])("%s is no address, in the words of every refusal", async (path) => {
  for (const method of ["GET", "HEAD"]) {
    const answer = await w.nobody.send(method, `/${path}`);
    expect([method, answer.status, answer.headers.get("allow")]).toEqual([method, 404, null]);
    if (method === "GET") expect(answer.body).toEqual({ error: { code: "NOT_FOUND", message: expect.any(String) } });
  }
});

test("the documentation page is whole without anything from outside", async () => {
  const page = await w.nobody.get("//docs/");
  expect(page.status).toBe(200);
  expect(page.text).not.toMatch(/(src|href)="https?:/);
  expect((await w.nobody.get("/openapi.json")).body.openapi).toBe("3.1.0");
});

type Operation = { parameters?: { name: string; in: string }[]; responses: Record<string, unknown> };
const document = (await w.nobody.get("/openapi.json")).body as { paths: Record<string, Record<string, Operation>> };
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.keys(methods).map((method) => ({ path, method: method.toUpperCase() })),
);
const anyValue = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom("products:read", "client_credentials", "2026-01-01T00:00:00.000Z", "\0", "\ud800", 1e308, -1, ""),
);
const fieldName = fc.oneof(
  fc.constantFrom(
    "name",
    "scopes",
    "permissions",
    "grant_type",
    "client_id",
    "client_secret",
    "scope",
    "sandbox",
    "expiresAt",
    "tier",
    "companyPrefixes",
  ),
  fc.string(),
);
const anyBody = fc.oneof(fc.dictionary(fieldName, anyValue, { maxKeys: 6 }), fc.jsonValue());
const anyQuery = fc.dictionary(
  fc.oneof(fc.constantFrom("limit", "cursor", "class", "requestId"), fc.string({ maxLength: 10 })),
  fc.string({ maxLength: 20, unit: "binary" }),
  { maxKeys: 3 },
);
const anyKey = fc.option(fc.stringMatching(/^[\x21-\x7e]{1,40}$/), { nil: undefined });
const statusesOf = ({ path, method }: (typeof operations)[number]) =>
  Object.keys(document.paths[path]?.[method.toLowerCase()]?.responses ?? {});

test.each(operations.filter(({ method }) => method !== "GET"))(
  "a body that $method $path takes nothing of is refused as the document says",
  async (operation) => {
    const url = `/${operation.path.replaceAll(/\{\w+\}/g, "x")}`;
    const unfit = [
      { body: "<a/>", headers: { "content-type": "text/xml" } },
      { body: `{"name":"${"x".repeat(1_100_000)}"}`, headers: json },
      { body: "{", headers: json },
    ];
    for (const sending of unfit) {
      const { status } = await w.admin.send(operation.method, url, sending);
      expect(statusesOf(operation)).toContain(String(status));
    }
  },
);

let looked = 0;
/** Of what was logged, what nobody has looked at. */
function news(): string[] {
  const lines = w.logged().slice(looked);
  looked += lines.length;
  return lines;
}

test.each(operations)("generated requests to $method $path are answered in a documented way", async (operation) => {
  const { path, method } = operation;
  await fc.assert(
    fc.asyncProperty(
      fc.string({ maxLength: 30, unit: "binary" }),
      anyQuery,
      anyBody,
      anyKey,
      fc.boolean(),
      async (id, query, body, key, known) => {
        const safe = id.isWellFormed() && id !== "" && id !== "." && id !== ".." ? encodeURIComponent(id) : "x";
        const pairs = Object.entries(query).filter((pair) => pair.every((part) => part.isWellFormed()));
        const search = new URLSearchParams(pairs).toString();
        const url = `/${path.replaceAll(/\{\w+\}/g, safe)}${search ? `?${search}` : ""}`;
        const sending =
          method === "GET"
            ? {}
            : { body: JSON.stringify(body), headers: { ...json, ...(key === undefined ? {} : { "idempotency-key": key }) } };
        const answer = await (known ? w.admin : w.nobody).send(method, url, sending);
        const faults = news().filter((line) => line.includes('"event":"fault"') && !line.includes('"code":"OVERLOADED"')); // shed by a busy machine, and sent again
        expect({ status: answer.status, faults }).toEqual({ status: expect.toSatisfy((status) => status < 500), faults: [] });
        expect(statusesOf(operation)).toContain(String(answer.status));
        if (answer.status >= 400) expect(answer.body.error).toMatchObject({ code: expect.any(String), message: expect.any(String) });
      },
    ),
    { numRuns: 25 },
  );
});
