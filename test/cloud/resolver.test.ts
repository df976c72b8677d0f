// The resolver against GS1's standard, row by row, and against people who mean no good.
import { connect } from "node:net";
import { expect, test } from "vitest";
import { encodeSgtin96 } from "#shared/gs1.ts";
import { limits } from "#shared/limits.ts";
import { forgetScans, recordScans } from "../../cloud/domain/scans.ts";
import { createLog } from "../../cloud/log.ts";
import { createMetrics } from "../../cloud/metrics.ts";
import { eq } from "../../cloud/store/drizzle.ts";
import { products, scans } from "../../cloud/store/schema.ts";
import { unavailable } from "../../cloud/store/store.ts";
import { scanQueue, startScanRecorder } from "../../cloud/workers/scan-recorder.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { allocate, publishing } from "../../fixtures/publishing.ts";
import { receiving } from "../hooks.ts";
import { engine, world } from "../world.ts";

const w = await world({ settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on" } });
const { published, publish, tenant } = publishing(w, 700_000);
const LINKSET = { accept: "application/linkset+json" };
const at = (path: string, headers: Record<string, string> = {}, method = "GET") => w.nobody.send(method, `/${path}`, { headers });
const code = ({ status, body }: { status: number; body?: { error?: { code: string } } }) => [status, body?.error?.code];
const VOC = "https://ref.gs1.org/voc/";

const kettle = await published();
const model = `/01/${kettle.gtin}`;
const page = `${w.url}/p/${kettle.id}`;
await allocate(w, kettle, ["1001", "1002", "A/B", "%2F", "SPAM"]);

test("a GTIN, a lot and any variant of it redirect to the passport's absolute address, at 302 and not to be stored", async () => {
  for (const path of [model, `${model}/10/LOT-1`, `${model}/22/V1`, `${model}/22/V1/10/L`, `${model}/235/${"T".repeat(28)}`]) {
    const answer = await at(path);
    expect([answer.status, answer.headers.get("location"), answer.text]).toEqual([302, page, ""]);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    expect(answer.headers.get("vary")).toBe("Accept, Accept-Language");
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    expect(answer.headers.get("link")).toBe(`<${w.url}${path}?linkType=linkset>; rel="linkset"; type="application/linkset+json"`);
  }
});

test("a serial redirects if it was allocated or is the product's own; an unknown one is 404 and doesn't walk up", async () => {
  for (const path of [`${model}/21/1001`, `${model}/10/L/21/1001`, `${model}/22/V/10/L/21/1001`])
    expect((await at(path)).headers.get("location")).toBe(`${page}?serial=1001`);
  expect((await at(`${model}/21/${kettle.serialNumber}`)).headers.get("location")).toBe(`${page}?serial=${kettle.serialNumber}`);
  const unknown = await at(`${model}/21/1003`);
  expect([...code(unknown), unknown.body.error.details]).toEqual([
    404,
    "PRODUCT_NOT_FOUND",
    { gtin: kettle.gtin, serial: "1003", host: new URL(w.url).host },
  ]);
});

test("what follows the redirect answers, and the serial arrives there whole", async () => {
  for (const serial of ["1001", "A/B", "%2F"]) {
    const { headers } = await at(`${model}/21/${encodeURIComponent(serial)}`);
    const answer = await fetch(headers.get("location") ?? "", { headers: { accept: "text/html" } });
    expect([answer.status, (await answer.text()).includes(`>${serial}<`)]).toEqual([200, true]);
  }
});

test("the path is decoded once, after it is split: %2F is part of a serial, %252F is the three characters that it says", async () => {
  expect((await at(`${model}/21/A%2FB`)).headers.get("location")).toBe(`${page}?serial=A%2FB`);
  expect((await at(`${model}/21/%252F`)).headers.get("location")).toBe(`${page}?serial=%252F`);
  expect(code(await at(`${model}/21/%25252F`))).toEqual([404, "PRODUCT_NOT_FOUND"]);
  expect(code(await at(`${model}/21/A/B`))).toEqual([400, "INVALID_SERIAL"]);
  expect((await at(`/%30%31/${kettle.gtin}/%32%31/%31%30%30%31`)).headers.get("location")).toBe(`${page}?serial=1001`);
  expect(code(await at(`${model}/%252%31/1001`))).toEqual([400, "INVALID_SERIAL"]);
});

// XCHAR of the standard's grammar: of URI's other signs - . _ stand as they are, all else is escaped.
const GRAMMAR = /^\/01\/\d{14}(\/(22|10|21)\/([\w.-]|%2[125-9A-CF]|%3[A-F])+)*$/;
test.each(["!\"%&'()*", "+,-./_:;", "<=>?.A-z"])("a link that we write is one by GS1's own grammar: %s", async (value) => {
  for (const granularity of ["item", "batch"] as const) {
    const thing = await published({ granularity, serialNumber: value });
    const path = `/01/${thing.gtin}/${granularity === "item" ? 21 : 10}/${encodeURIComponent(value)}`;
    const { linkset } = (await at(path, LINKSET)).body;
    const said = /^<([^>]*)\?linkType/.exec((await at(path)).headers.get("link") ?? "")?.[1];
    const { uniqueProductIdentifier, product } = (await at(`/v1/dpps/${thing.passportId}`)).body;
    for (const link of [linkset[0].anchor, said, uniqueProductIdentifier, product.id]) {
      expect(link.slice(0, w.url.length)).toBe(w.url);
      expect(link.slice(w.url.length)).toMatch(GRAMMAR);
      expect((await at(link.slice(w.url.length))).headers.get("location")).toBe((await at(path)).headers.get("location"));
    }
  }
});

test.each([
  ["a wrong check digit", "/01/09506000134353", "INVALID_GTIN"],
  ["13 digits", "/01/9506000134352", "INVALID_GTIN"],
  ["8 digits", "/01/95060003", "INVALID_GTIN"],
  ["15 digits", "/01/009506000134352", "INVALID_GTIN"],
  ["letters", "/01/0950600013435x", "INVALID_GTIN"],
  ["nothing", "/01/", "INVALID_GTIN"],
  ["digits of another script", `/01/${encodeURIComponent("٠٩٥٠٦٠٠٠١٣٤٣٥٢")}`, "INVALID_GTIN"],
  ["a thousand digits", `/01/${"0".repeat(1_000)}`, "INVALID_GTIN"],
  ["bytes that aren't UTF-8", "/01/%ff", "INVALID_GTIN"],
  ["an unfinished escape in the serial", `${model}/21/%zz`, "INVALID_SERIAL"],
  ["an unknown qualifier", `${model}/foo`, "INVALID_SERIAL"],
  ["an alphabetic alias", `${model}/ser/1001`, "INVALID_SERIAL"],
  ["a data attribute in the path", `${model}/17/271231`, "INVALID_SERIAL"],
  ["a serial of 21", `${model}/21/${"1".repeat(21)}`, "INVALID_SERIAL"],
  ["a serial of 5,000", `${model}/21/${"1".repeat(5_000)}`, "INVALID_SERIAL"],
  ["a lot of 21", `${model}/10/${"1".repeat(21)}`, "INVALID_SERIAL"],
  ["no serial", `${model}/21/`, "INVALID_SERIAL"],
  ["an empty serial before another slash", `${model}/21//`, "INVALID_SERIAL"],
  ["a qualifier twice", `${model}/21/1/21/1`, "INVALID_SERIAL"],
  ["qualifiers in the wrong order", `${model}/21/1001/10/L`, "INVALID_SERIAL"],
  ["a character outside of the set", `${model}/21/${encodeURIComponent("ü")}`, "INVALID_SERIAL"],
  ["a NUL", `${model}/21/a%00`, "INVALID_SERIAL"],
  ["a line end", `${model}/21/a%0d%0aSet-Cookie:x`, "INVALID_SERIAL"],
  ["something behind the serial", `${model}/21/1001/x`, "INVALID_SERIAL"],
  ["an extension behind a lot", `${model}/10/L/235/T`, "INVALID_SERIAL"],
  ["a serial behind an extension", `${model}/235/T/21/1001`, "INVALID_SERIAL"],
  ["an extension of 29", `${model}/235/${"T".repeat(29)}`, "INVALID_SERIAL"],
  ["an EPC that is none", "/eh00", "INVALID_GTIN"],
  ["an EPC of another kind", `/eh${"3".repeat(24)}`, "INVALID_GTIN"],
  ["base64url of another length", "/exAAAA", "INVALID_GTIN"],
  ["a qualifier in the query", `${model}?21=1001`, "VALIDATION_ERROR"],
  ["a key in the query", `${model}?01=${kettle.gtin}`, "VALIDATION_ERROR"],
  ["a key that a GTIN excludes in the query", `${model}?255=9506000134352`, "VALIDATION_ERROR"],
  ["another key's qualifier in the query", `${model}?254=32`, "VALIDATION_ERROR"],
  ["what is in a box, which a GTIN excludes, in the query", `${model}?02=${kettle.gtin}`, "VALIDATION_ERROR"],
  ["how many are in it", `${model}?37=8`, "VALIDATION_ERROR"],
  ["an extension in the query", `${model}?235=T`, "VALIDATION_ERROR"],
  ["a data attribute twice", `${model}?17=271231&17=281231`, "VALIDATION_ERROR"],
  ["a number that is no application identifier", `${model}?999999=1`, "VALIDATION_ERROR"],
  ["two link types", `${model}?linkType=gs1:dpp&linkType=linkset`, "VALIDATION_ERROR"],
  ["a query that can't be decoded", `${model}?%zz=1`, "MALFORMED_REQUEST"],
])("a link with %s is 400", async (_what, path, expected) => {
  expect(code(await at(path))).toEqual([400, expected]);
  expect(code(await at(`${path}${path.includes("?") ? "&" : "?"}linkType=linkset`))[0]).toBe(400);
});

test("dot segments that a client left in the path are malformed, and absolute or odd targets lead nowhere else", async () => {
  const raw = (target: string) =>
    new Promise<string>((resolve, reject) => {
      const { hostname, port } = new URL(w.url);
      const socket = connect(Number(port), hostname, () =>
        socket.write(`GET ${target} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n`),
      );
      let heard = "";
      socket.on("data", (chunk: Buffer) => (heard += chunk.toString("latin1")));
      socket.on("close", () => resolve(heard)).on("error", reject);
    });
  for (const target of [`${model}/21/..`, `${model}/21/.`, "/01/..", `${model}/../../p`, `/01/${kettle.gtin}/21/1001/../1002`])
    expect(await raw(target)).toMatch(/^HTTP\/1\.1 400 [^]*INVALID_/);
  expect(await raw(`//evil.example${model}`)).toMatch(/^HTTP\/1\.1 404 /);
  expect(await raw(`${model}?//evil.example/>;rel="x"`)).toContain(`\r\nlocation: ${page}?//evil.example/>;rel="x"\r\n`);
  expect(await raw(`${model}?x=\u00e9`)).toMatch(/^HTTP\/1\.1 400 [^]*MALFORMED_REQUEST/);
  expect(await raw(`${model}?x=a\r\nset-cookie: b=c`)).not.toMatch(/^set-cookie/im);
  const host = await raw(model);
  expect(host).toContain(`\r\nlocation: ${page}\r\n`);
  expect(host.toLowerCase()).not.toContain("evil.example");
});

test("well-formed and unknown is 404 PRODUCT_NOT_FOUND that names what was asked, for the linkset too", async () => {
  const gtin = gtinOf(799_999);
  for (const path of [`/01/${gtin}`, `/01/${gtin}/10/L`, `/01/${gtin}?linkType=linkset`]) {
    const answer = await at(path);
    expect([...code(answer), answer.body.error.details]).toEqual([
      404,
      "PRODUCT_NOT_FOUND",
      { gtin, serial: null, host: new URL(w.url).host },
    ]);
  }
});

test("a draft doesn't resolve; suspended and archived passports redirect to the page, which says 410", async () => {
  const draft = await published({}, "draft");
  expect(code(await at(`/01/${draft.gtin}`))).toEqual([404, "PRODUCT_NOT_FOUND"]);
  for (const command of ["suspend", "archive"]) {
    const { id, gtin, passportId } = await published();
    await w.admin.post(`/passports/${passportId}/${command}`);
    const answer = await at(`/01/${gtin}`);
    expect([answer.status, answer.headers.get("location")]).toEqual([302, `${w.url}/p/${id}`]);
    expect(code(await at(`/p/${id}`))).toEqual([410, "PASSPORT_WITHDRAWN"]);
    for (const accept of ["application/json", "text/html"])
      expect((await at(`/01/${gtin}?linkType=linkset`, { accept })).text).not.toContain("Kettle");
  }
});

test("the whole query goes along as it was sent, behind the serial where there is one", async () => {
  const place = "414=9506000134352&415=9506000134352&8004=9506000A7"; // other things' keys may stand beside a GTIN
  expect((await at(`${model}?${place}`)).headers.get("location")).toBe(`${page}?${place}`);
  expect((await at(`${model}?17=271231&utm=a%20b&x=%3Cy%3E`)).headers.get("location")).toBe(`${page}?17=271231&utm=a%20b&x=%3Cy%3E`);
  expect((await at(`${model}/21/1001?a=1&serial=1002`)).headers.get("location")).toBe(`${page}?serial=1001&a=1&serial=1002`);
});

test("one trailing slash changes nothing but the address", async () => {
  for (const path of [model, `${model}/21/1001`, `${model}/10/L`])
    expect((await at(`${path}/`)).headers.get("location")).toBe((await at(path)).headers.get("location"));
});

test("linkType picks the link: dpp by name or full address, in the form that Accept asks for; an unknown one is 404", async () => {
  for (const type of ["gs1:dpp", `${VOC}dpp`, encodeURIComponent(`${VOC}dpp`), "https://gs1.org/voc/dpp", "gs1:defaultLink"])
    expect((await at(`${model}?linkType=${type}`)).headers.get("location")).toBe(`${page}?linkType=${type}`);
  const data = await at(`${model}/21/1001?linkType=gs1:dpp`, { accept: "application/ld+json" });
  expect(data.headers.get("location")).toBe(`${page}.jsonld?serial=1001&linkType=gs1:dpp`);
  const signed = await at(`${model}?linkType=gs1:dpp`, { accept: "application/vc+jwt, text/html;q=0.1" });
  expect(signed.headers.get("location")).toBe(`${page}.vc?linkType=gs1:dpp`);
  for (const type of ["gs1:pip", "dpp", "https://evil.example/voc/dpp", "gs1:__proto__"]) {
    const answer = await at(`${model}?linkType=${type}`);
    expect(code(await at(`${model}?linkType=${type}`, LINKSET))).toEqual([404, "PRODUCT_NOT_FOUND"]);
    expect([...code(answer), answer.body.error.details.available]).toEqual([404, "PRODUCT_NOT_FOUND", ["gs1:defaultLink", "gs1:dpp"]]);
    expect(answer.body.error.message).toContain(`has no link of the type ${type}; there are gs1:defaultLink, gs1:dpp`);
  }
});

test.each([
  ["linkType=linkset", "?linkType=linkset", {}],
  ["linkType=all, as it was once spelled", "?linkType=all", {}],
  ["Accept", "", LINKSET],
  ["Accept among others", "", { accept: "application/linkset+json, */*;q=0.1" }],
  ["Accept in another case", "", { accept: "application/LINKSET+json" }],
  ["Accept, and anything else as well", "", { accept: "application/linkset+json, */*" }],
  ["Accept beside the type of a link that there is", "?linkType=gs1:dpp", LINKSET],
])("a linkset is 200 by %s: each level once, one default link each, the first the same as the redirect's", async (_how, query, headers) => {
  for (const [path, anchors] of [
    [model, [model]],
    [`${model}/21/1001`, [`${model}/21/1001`, model]],
    [`${model}/10/L`, [model]],
  ] as const) {
    const answer = await at(`${path}${query}`, headers);
    expect([answer.status, answer.headers.get("content-type")]).toEqual([200, "application/linkset+json"]);
    expect(answer.headers.get("link")).toBe(
      '<https://ref.gs1.org/standards/resolver/linkset-context>; rel="http://www.w3.org/ns/json-ld#context"; type="application/ld+json"',
    );
    const { linkset } = answer.body as { linkset: Record<string, { href: string; title: string; type?: string; hreflang?: string[] }[]>[] };
    expect(linkset.map(({ anchor }) => anchor)).toEqual(anchors.map((one) => w.url + one));
    const location = (await at(path)).headers.get("location");
    expect(linkset[0]?.[`${VOC}defaultLink`]).toEqual([{ href: location, title: "Product passport" }]);
    for (const { anchor: _anchor, itemDescription, ...links } of linkset) {
      expect(itemDescription).toBe("Kettle");
      expect(Object.keys(links)).toEqual([`${VOC}defaultLink`, `${VOC}dpp`]);
      expect(links[`${VOC}defaultLink`]).toHaveLength(1);
      const described = links[`${VOC}dpp`] ?? [];
      expect(described.map(({ type }) => type)).toEqual(["text/html", "application/ld+json", "application/vc+jwt"]);
      expect(described[0]?.href).toBe(links[`${VOC}defaultLink`]?.[0]?.href);
      expect(described[0]?.hreflang).toEqual(["en", "de", "es", "fr", "it", "zh-CN"]);
      for (const tag of described[0]?.hreflang ?? []) expect(tag).toMatch(/^[a-z]{2}(?:-[A-Z]{2})?$/); // as GS1 has them
      for (const target of described) {
        expect(Object.keys(target).filter((key) => !["href", "title", "type", "hreflang", "context"].includes(key))).toEqual([]);
        expect((await fetch(target.href)).headers.get("content-type")).toContain(target.type);
      }
    }
  }
});

test("a linkset for a browser is a page that holds the very linkset; a browser without linkType is redirected", async () => {
  const browser = { accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" };
  const answer = await at(`${model}/21/1001?linkType=linkset`, browser);
  expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
  const embedded = /<script type="application\/ld\+json">(.*?)<\/script>/s.exec(answer.text)?.[1] ?? "";
  expect(JSON.parse(embedded)).toEqual((await at(`${model}/21/1001?linkType=linkset`)).body);
  expect((await at(model, browser)).status).toBe(302);
});

test("HEAD says what GET says, without a body; OPTIONS answers any web page and names the linkset", async () => {
  for (const [path, status] of [
    [`${model}/21/1001`, 302],
    [`${model}?linkType=linkset`, 200],
    [`${model}/21/1003`, 404],
    ["/01/1", 400],
  ] as const) {
    const [head, get] = [await at(path, {}, "HEAD"), await at(path)];
    expect([head.status, head.text]).toEqual([status, ""]);
    for (const name of ["location", "link", "content-type", "cache-control", "vary", "access-control-allow-origin"])
      expect(head.headers.get(name)).toBe(get.headers.get(name));
  }
  const options = await at(`${model}/21/A%2FB`, {}, "OPTIONS");
  expect([options.status, options.headers.get("access-control-allow-origin"), options.headers.get("access-control-allow-methods")]).toEqual(
    [204, "*", "GET, HEAD, OPTIONS"],
  );
  expect(options.headers.get("link")).toBe(`<${w.url}${model}/21/A%2FB?linkType=linkset>; rel="linkset"; type="application/linkset+json"`);
  expect(code(await at("/01/1", {}, "OPTIONS"))).toEqual([400, "INVALID_GTIN"]);
  expect((await at(`/p/${kettle.id}`, {}, "OPTIONS")).status).toBe(204);
  const wrong = await at(model, {}, "DELETE");
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
});

test("a voided serial is 410 at once, for the linkset too, and nothing of the product is told; its siblings live", async () => {
  await w.store.write("void", async (tx) => void (await tx.db.run(`UPDATE serials SET voided_at = 1 WHERE serial = '1002'`)));
  for (const [path, headers] of [
    [`${model}/21/1002`, {}],
    [`${model}/21/1002?linkType=linkset`, {}],
    [`${model}/21/1002`, LINKSET],
    [`${model}/21/1002`, { accept: "text/html" }],
    [`/p/${kettle.id}?serial=1002`, {}],
    [`/p/${kettle.id}?serial=1002`, { accept: "text/html" }],
    [`/p/${kettle.id}.vc?serial=1002`, {}],
  ] as const) {
    const answer = await at(path, headers);
    expect([answer.status, answer.text.includes("SERIAL_VOIDED"), answer.text.includes("Kettle")]).toEqual([410, true, false]);
    expect(answer.headers.get("link")).toBe(null);
  }
  expect((await at(`${model}/21/1001`)).status).toBe(302);
});

test("a voided serial is 410 where no model is published too: of a lot, of an item, and of what its tenant hasn't published yet", async () => {
  const made = async (granularity: string, more: Record<string, unknown>, stage?: "none") => {
    const product = await published({ granularity, ...more }, stage);
    const { serials } = (await w.admin.post("/carriers/batch", { productId: product.id, count: 2 })).body;
    const [gone, kept] = serials as [string, string];
    expect((await w.admin.post(`/products/${product.id}/void`, { reason: "torn", serial: gone })).status).toBe(200);
    return { ...product, gone: `/01/${product.gtin}/21/${gone}`, kept: `/01/${product.gtin}/21/${kept}` };
  };
  const lot = await made("batch", { serialNumber: "L-5" });
  const item = await made("item", {});
  const next = await made("batch", { gtin: lot.gtin, serialNumber: "L-6" }, "none");
  const ways = [["", {}], ["?linkType=linkset", {}], ["", LINKSET]] as const; // oxfmt-ignore
  for (const { gone } of [lot, item, next])
    for (const [query, headers] of ways) expect([gone, ...code(await at(gone + query, headers))]).toEqual([gone, 410, "SERIAL_VOIDED"]);
  expect([(await at(lot.kept)).status, (await at(item.kept)).status]).toEqual([302, 302]);
  expect(code(await at(next.kept))).toEqual([404, "PRODUCT_NOT_FOUND"]);
});

test("a voided product is 410 under its GTIN, its own serial and its carriers'; voided before it was published, its serial too", async () => {
  const gone = await published();
  await allocate(w, gone, ["2001"]);
  await w.admin.post(`/products/${gone.id}/void`, { reason: "recalled" });
  for (const path of ["", "/10/L", "/21/2001", `/21/${gone.serialNumber}`])
    expect(code(await at(`/01/${gone.gtin}${path}`))).toEqual([410, "SERIAL_VOIDED"]);
  const never = await published({ granularity: "item" }, "none");
  await w.admin.post(`/products/${never.id}/void`, { reason: "scrapped" });
  expect(code(await at(`/01/${never.gtin}/21/${never.serialNumber}`))).toEqual([410, "SERIAL_VOIDED"]);
  expect(code(await at(`/01/${never.gtin}`))).toEqual([404, "PRODUCT_NOT_FOUND"]);
  const { serialNumber } = await published({ gtin: never.gtin, serialNumber: never.serialNumber }); // a model may be registered under the same number
  expect((await at(`/01/${never.gtin}`)).status).toBe(302);
  expect(code(await at(`/01/${never.gtin}/21/${serialNumber}`))).toEqual([410, "SERIAL_VOIDED"]);
});

test("a lot that was voided before it was published is 410, and its model doesn't answer for it; another's grave says nothing", async () => {
  const whole = await published();
  const lot = await published({ gtin: whole.gtin, granularity: "batch", serialNumber: "L-2" }, "none");
  const other = await tenant("another");
  const copy = await other.published({ gtin: whole.gtin, granularity: "batch", serialNumber: "L-3" }, "none");
  const alone = await published({ granularity: "batch", serialNumber: "L-4" }, "none");
  expect((await at(`/01/${whole.gtin}/10/L-2`)).status).toBe(302);
  for (const [{ admin }, { id }] of [
    [w, lot],
    [other, copy],
    [w, alone],
  ] as const)
    // oxfmt-ignore
    expect((await admin.post(`/products/${id}/void`, { reason: "recalled" })).status).toBe(200);
  for (const [query, headers] of [
    ["", {}],
    ["?linkType=linkset", {}],
    ["", LINKSET],
  ] as const)
    // oxfmt-ignore
    expect(code(await at(`/01/${whole.gtin}/10/L-2${query}`, headers))).toEqual([410, "SERIAL_VOIDED"]);
  expect(code(await at(`/01/${alone.gtin}/10/L-4`))).toEqual([410, "SERIAL_VOIDED"]);
  for (const path of ["", "/10/L-3", "/10/L-1"]) expect((await at(`/01/${whole.gtin}${path}`)).status).toBe(302);
});

test("labels of a lot that was voided before it was published are 410, where its tenant publishes anything of the GTIN", async () => {
  const [whole, part] = [await published(), await published({ granularity: "batch", serialNumber: "L-5" })];
  for (const { gtin } of [whole, part]) {
    const lot = await published({ gtin, granularity: "batch", serialNumber: "L-6" }, "none");
    const { serials } = (await w.admin.post("/carriers/batch", { productId: lot.id, count: 1 })).body;
    const link = `/01/${gtin}/21/${serials[0]}`;
    expect(code(await at(link))).toEqual([404, "PRODUCT_NOT_FOUND"]);
    expect((await w.admin.post(`/products/${lot.id}/void`, { reason: "recalled" })).status).toBe(200);
    for (const headers of [{}, LINKSET]) expect(code(await at(link, headers))).toEqual([410, "SERIAL_VOIDED"]);
  }
});

test("labels of a product that was voided before anything of its GTIN was published are 410, until another tenant publishes it", async () => {
  const never = await published({}, "none");
  const { serials } = (await w.admin.post("/carriers/batch", { productId: never.id, count: 1 })).body;
  const link = `/01/${never.gtin}/21/${serials[0]}`;
  expect(code(await at(link))).toEqual([404, "PRODUCT_NOT_FOUND"]);
  expect((await w.admin.post(`/products/${never.id}/void`, { reason: "recalled" })).status).toBe(200);
  for (const headers of [{}, LINKSET]) expect(code(await at(link, headers))).toEqual([410, "SERIAL_VOIDED"]);
  expect(code(await at(`/01/${never.gtin}/21/77`))).toEqual([404, "PRODUCT_NOT_FOUND"]);
  await (await tenant("next")).published({ gtin: never.gtin });
  expect(code(await at(link))).toEqual([404, "PRODUCT_NOT_FOUND"]);
});

test("items and lots have passports of their own, found before their model's; a batch's name is no serial and an item's no lot", async () => {
  const whole = await published();
  const item = await published({ gtin: whole.gtin, granularity: "item", serialNumber: "I-1" });
  const lot = await published({ gtin: whole.gtin, granularity: "batch", serialNumber: "L-1" });
  const to = async (path: string) => (await at(`/01/${whole.gtin}${path}`)).headers.get("location");
  expect(await to("/21/I-1")).toBe(`${w.url}/p/${item.id}?serial=I-1`);
  expect(await to("/10/L-1")).toBe(`${w.url}/p/${lot.id}`);
  expect(await to("/10/I-1")).toBe(`${w.url}/p/${whole.id}`);
  expect(code(await at(`/01/${whole.gtin}/21/L-1`))).toEqual([404, "PRODUCT_NOT_FOUND"]);
  await allocate(w, lot, ["77"]);
  expect(await to("/21/77")).toBe(`${w.url}/p/${lot.id}?serial=77`);
  const anchors = async (path: string): Promise<string[]> => {
    const { linkset } = (await at(`/01/${whole.gtin}${path}?linkType=linkset`)).body;
    return linkset.map(({ anchor }: { anchor: string }) => anchor.replace(`${w.url}/01/${whole.gtin}`, ""));
  };
  expect(await anchors("/10/L-1")).toEqual(["/10/L-1", ""]);
  expect(await anchors("/10/L-1/21/77")).toEqual(["/21/77", "/10/L-1", ""]);
  expect(await anchors("/10/I-1/21/I-1")).toEqual(["/21/I-1", ""]);
  await published({ gtin: whole.gtin, granularity: "batch", serialNumber: "L-2" });
  expect(await anchors("/10/L-2/21/77")).toEqual(["/21/77", ""]); // it is of the other lot
  expect(await anchors("/10/L-1/21/I-1")).toEqual(["/21/I-1", "/10/L-1", ""]);
  await w.admin.post(`/products/${lot.id}/void`, { reason: "recalled" });
  expect(await anchors("/10/L-1/21/I-1")).toEqual(["/21/I-1", ""]);
});

test("without a model, carriers of a lot resolve by who publishes the lot; another tenant's serials and graves say nothing", async () => {
  const other = await tenant("other");
  const lot = await published({ granularity: "batch", serialNumber: "L-9" });
  await allocate(w, lot, ["881"]);
  expect((await at(`/01/${lot.gtin}/21/881`)).headers.get("location")).toBe(`${w.url}/p/${lot.id}?serial=881`);
  const copy = await other.published({ gtin: lot.gtin, granularity: "item", serialNumber: "882" }, "none");
  await other.admin.post(`/products/${copy.id}/void`, { reason: "not theirs to bury" });
  await allocate(w, copy, ["883"], other.tenantId);
  expect(code(await at(`/01/${lot.gtin}/21/882`))).toEqual([404, "PRODUCT_NOT_FOUND"]);
  expect(code(await at(`/01/${lot.gtin}/21/883`))).toEqual([404, "PRODUCT_NOT_FOUND"]);
});

test("an SGTIN-96 in the path is the serial that it encodes, and says so", async () => {
  const hex = encodeSgtin96({ gtin: kettle.gtin, serial: "1001", companyPrefixLength: 7, filter: 1 });
  const base64url = Buffer.from(hex, "hex").toString("base64url");
  const escaped = (text: string) => text.replaceAll(/./g, (sign) => `%${Buffer.from(sign).toString("hex")}`);
  const forms = [
    `/eh${hex}`,
    `/eh${hex.toLowerCase()}`,
    `/ex${base64url}`,
    `/eh${hex}/`,
    `/eh${escaped(hex)}`,
    `/${escaped(`ex${base64url}`)}`,
  ];
  for (const path of forms) {
    const answer = await at(`${path}?a=1`);
    expect([answer.status, answer.headers.get("location")]).toEqual([302, `${page}?serial=1001&a=1`]);
    expect(answer.headers.get("link")).toBe(
      `<${w.url}${model}/21/1001?linkType=linkset>; rel="linkset"; type="application/linkset+json", <${w.url}${model}/21/1001>; rel="owl:sameAs"`,
    );
  }
});

test("the description file says what is resolved here", async () => {
  const { status, body, headers } = await at("/.well-known/gs1resolver");
  expect([status, headers.get("access-control-allow-origin")]).toEqual([200, "*"]);
  expect(body).toMatchObject({ resolverRoot: w.url, supportedPrimaryKeys: ["01"] });
});

test("a scan is recorded for a GET that resolved a serial, once, after the answer; for nothing else", async () => {
  const item = await published();
  await allocate(w, item, ["555"]);
  const link = `/01/${item.gtin}/21/555`;
  await at(link);
  await at(link, { accept: "text/html" });
  for (const [path, method] of [
    [link, "HEAD"],
    [link, "OPTIONS"],
    [`${link}?linkType=linkset`, "GET"],
    [`${link}?linkType=gs1:pip`, "GET"],
    [`/01/${item.gtin}/21/556`, "GET"],
    [`/01/${item.gtin}`, "GET"],
    [`/p/${item.id}?serial=555`, "GET"],
  ] as const)
    await at(path, {}, method);
  const seen = () => w.store.read("scans", async ({ db }) => (await db.select().from(scans)).filter(({ gtin }) => gtin === item.gtin));
  await expect.poll(async () => (await seen()).length).toBe(2);
  expect((await seen()).map(({ serial, productId, agent }) => `${serial} ${productId} ${agent}`).toSorted()).toEqual([
    `555 ${item.id} browser`,
    `555 ${item.id} program`,
  ]);
  await at(link);
  await w.restart(); // what waits when it ends is written first
  expect(await seen()).toHaveLength(3);
});

const scansOf = (gtin: string) => w.store.read("scans", async ({ db }) => db.select().from(scans).where(eq(scans.gtin, gtin)));

test("however many scans wait when it ends, all are written first", async () => {
  const waiting = scanQueue(createMetrics());
  const recorder = startScanRecorder(w.store, createLog("silent"), waiting);
  for (let n = 0; n < 1_200; n += 1)
    waiting.add({ tenantId: "t", productId: "p", gtin: "many", serial: String(n), at: Date.now(), agent: "program", requestId: "r" });
  await recorder.stop();
  expect(await scansOf("many")).toHaveLength(1_200);
});

test("scans whose commit held though its answer was lost are recorded once, with those that came meanwhile", async () => {
  let commits = 0;
  const write: typeof w.store.write = async (label, work) => {
    const value = await w.store.write(label, work);
    if ((commits += 1) === 1) throw unavailable(new Error("the connection broke once the commit was asked for"));
    return value;
  };
  const waiting = scanQueue(createMetrics());
  const recorder = startScanRecorder({ ...w.store, write }, createLog("silent"), waiting);
  const scanned = (serial: string) =>
    waiting.add({ tenantId: "t", productId: "p", gtin: "once", serial, at: Date.now(), agent: "program", requestId: "r" });
  scanned("1");
  await expect.poll(() => commits).toBe(1);
  scanned("2");
  await recorder.stop();
  expect((await scansOf("once")).map(({ serial }) => serial).toSorted()).toEqual(["1", "2"]);
});

test.runIf(engine === "sqlite")("what is scanned while the disk is full is recorded once there is room", async () => {
  const item = await published();
  await allocate(w, item, ["777"]);
  const pages = (most: number) => w.store.write("pages", async ({ db }) => void (await db.values(`PRAGMA max_page_count = ${most}`)));
  await pages(1);
  const fill = () => w.admin.post("/oauth/clients", { name: "x".repeat(190), scopes: ["aidc:read"] });
  for (let isFull = false; !isFull;) isFull = (await fill()).body.error?.code === "STORE_UNAVAILABLE";
  for (let n = 0; n < 300; n += 1) expect((await at(`/01/${item.gtin}/21/777`)).status).toBe(302);
  await expect.poll(() => w.logged().some((line) => line.includes("scans-failed"))).toBe(true);
  await pages(1_000_000);
  await expect.poll(async () => (await scansOf(item.gtin)).length).toBe(300);
  expect((await w.admin.get("/metrics")).text).toContain("\nscans_dropped 0\n");
});

test("a webhook hears of a scan under the request's own correlation id", async () => {
  const receiver = await receiving();
  await w.admin.post("/webhooks", { url: receiver.url, events: ["scan.recorded"] });
  await at(`${model}/21/1001`, { "x-correlation-id": "a-door-in-hall-3" });
  await expect.poll(() => receiver.received.length).toBe(1);
  const [{ headers, event } = expect.fail("nothing came")] = receiver.received;
  expect([headers["x-correlation-id"], event.data]).toEqual(["a-door-in-hall-3", expect.objectContaining({ serial: "1001" })]);
});

test("scans of several tenants that are written down at once are each told to their own tenant only", async () => {
  const receiver = await receiving();
  await w.admin.post("/webhooks", { url: receiver.url, events: ["scan.recorded"] });
  const { gtin, id: productId } = await published({ granularity: "model" });
  await w.store.write("scans", async (tx) => {
    const [{ tenantId } = expect.fail("no product")] = await tx.db.select().from(products).where(eq(products.id, productId));
    const scan = { tenantId, productId, gtin, at: tx.now, agent: "program" as const, requestId: "r" };
    await recordScans(tx, [
      { ...scan, id: "a", serial: "first" },
      { ...scan, id: "b", serial: "not ours", tenantId: "another" },
      { ...scan, id: "c", serial: "second" },
    ]);
  });
  await expect.poll(() => receiver.received.length).toBe(2);
  expect(receiver.received.map(({ event }) => (event.data as { serial: string }).serial).toSorted()).toEqual(["first", "second"]);
});

test("a scan is forgotten once it is older than it is kept", async () => {
  const at = Date.UTC(2026, 0, 1);
  const scan = { tenantId: "t", productId: "p", gtin: "g", serial: "old", at, agent: "program" as const, requestId: "r" };
  const forgotten = await w.store.write("scans", async (tx) => {
    await recordScans(tx, [
      { ...scan, id: "d" },
      { ...scan, id: "e", at: tx.now },
    ]);
    return forgetScans({ ...tx, now: at + limits.SCAN_KEEP_MS + 1 }, 10);
  });
  expect(forgotten).toBe(1);
});

test("a revised passport resolves to the version that is published, and publishing the draft changes nothing of the address", async () => {
  const { id, gtin, passportId } = await published();
  await w.admin.post(`/passports/${passportId}/revise`);
  expect((await at(`/01/${gtin}`)).headers.get("location")).toBe(`${w.url}/p/${id}`);
  await publish(id);
  expect((await at(`/01/${gtin}`)).headers.get("location")).toBe(`${w.url}/p/${id}`);
});

test("a linkset names a product as its published passport does, whatever it is called since", async () => {
  const renamed = await published({ granularity: "model" });
  await w.admin.patch(`/products/${renamed.id}`, { name: "Secret codename" });
  const { linkset } = (await at(`/01/${renamed.gtin}?linkType=linkset`)).body as { linkset: { itemDescription: string }[] };
  expect(linkset.map(({ itemDescription }) => itemDescription)).toEqual(["Kettle"]);
});
