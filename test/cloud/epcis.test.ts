// EPCIS captures: each event once, each tenant its own, all or what can be; labels verified, and what the print loop tells by itself.
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import * as domain from "../../cloud/domain/epcis.ts";
import { eq } from "../../cloud/store/drizzle.ts";
import { outbox, serials, subscriptions } from "../../cloud/store/schema.ts";
import { startDistance } from "../../fixtures/distance.ts";
import { productOf } from "../../fixtures/passports.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { ask, capture, CONTEXT, document, found, idsOf, job, type Json, observed, refusal, tenantOf, walk } from "../epcis.ts";
import { engine, freshDatabase, world } from "../world.ts";

const w = await world();
const tenant = () => tenantOf(w);
const scans = (of: string) =>
  w.store.read("outbox", async ({ db }) => db.select().from(outbox).where(eq(outbox.tenantId, of)).orderBy(outbox.id));

test("a bare event is captured either way, needs no context, and gets an id where it has none", async () => {
  const { as } = await tenant();
  const { eventID: _none, ...anonymous } = observed();
  expect(await job(as, await capture(as, anonymous))).toMatchObject({ success: true });
  const [first] = await ask(as, {});
  expect(first?.["eventID"]).toMatch(/^urn:uuid:[0-9a-f-]{36}$/);
  const event: Json = { "@context": [CONTEXT, { mill: "https://mill.example/" }], ...observed({ "mill:n": 1 }) };
  const answer = await as.post("/epcis/events", event);
  expect([answer.status, answer.headers.get("location")]).toEqual([201, `/api/v2/epcis/events/${encodeURIComponent(event["eventID"])}`]);
  expect(answer.body).toEqual({ ...event, recordTime: expect.stringMatching(/^2.*Z$/) });
  const named = await as.post("/epcis/events", anonymous);
  const { eventID } = named.body;
  expect(named.body).toEqual({ "@context": [CONTEXT], ...anonymous, eventID, recordTime: expect.stringMatching(/^2.*Z$/) });
  expect(named.headers.get("location")).toBe(`/api/v2/epcis/events/${encodeURIComponent(eventID)}`);
  expect(found(await as.get(`/epcis/events/${encodeURIComponent(event["eventID"])}`))).toMatchObject([event]);
  expect(refusal(await as.post("/epcis/events", document([observed()])))).toEqual([
    400,
    "VALIDATION_ERROR",
    "epcisException:ValidationException",
  ]);
});

test("when something was recorded is the repository's to say", async () => {
  const { as } = await tenant();
  await capture(as, document([observed({ recordTime: "2001-01-01T00:00:00Z" })]));
  const [event] = await ask(as, {});
  expect(Date.parse(event?.["recordTime"])).toBeGreaterThan(Date.parse("2026-01-01T00:00:00Z"));
});

test("what was captured before is a success without effect; with other content it is an error of that event", async () => {
  const { as } = await tenant();
  const [known, fresh] = [observed(), observed()];
  await job(as, await capture(as, document([known, known])));
  const before = await ask(as, {});
  expect(before).toHaveLength(1);
  expect(await job(as, await capture(as, document([{ ...known, recordTime: "2020-01-01T00:00:00Z" }])))).toMatchObject({
    success: true,
    errors: [],
  });
  const again = await as.post("/epcis/events", known);
  expect([again.status, again.body]).toEqual([201, { "@context": [CONTEXT], ...before[0] }]); // as it has been since
  expect(await ask(as, {})).toEqual(before);

  const other = { ...known, bizStep: "loading" };
  const rolled = await job(as, await capture(as, document([fresh, other])));
  expect(rolled).toMatchObject({ running: false, success: false, captureErrorBehaviour: "rollback" });
  expect(rolled["errors"]).toEqual([
    {
      type: "epcisException:ResourceAlreadyExistsException",
      title: expect.any(String),
      status: 409,
      detail: expect.stringContaining(known["eventID"]),
    },
  ]);
  expect(await ask(as, {})).toEqual(before);
  expect(await job(as, await capture(as, document([fresh, other]), { "gs1-capture-error-behaviour": "proceed" }))).toMatchObject({
    success: false,
    errors: rolled["errors"],
  });
  expect(idsOf(await ask(as, {})).toSorted()).toEqual(idsOf([known, fresh]).toSorted());
  expect(await ask(as, { EQ_bizStep: "loading" })).toEqual([]);
  expect(refusal(await as.post("/epcis/events", other))).toEqual([409, "EVENT_EXISTS", "epcisException:ResourceAlreadyExistsException"]);
});

test("the content of an event is the same whatever declares its prefixes, as long as they stand for the same", async () => {
  const { as } = await tenant();
  const [mill, other] = ["https://mill.example/", "https://other.example/"].map((to) => [CONTEXT, { mill: to }]);
  const whole = (event: Json, context: unknown = [CONTEXT]) => document([event], { "@context": context });
  const [plain, mine] = [observed(), observed({ "mill:n": 1 })];
  await job(as, await capture(as, whole(plain)));
  await job(as, await capture(as, whole(mine, [...(mill ?? []), { unused: "https://unused.example/" }])));
  const [before] = await ask(as, { EQ_eventID: plain["eventID"] });
  for (const same of [
    { "@context": CONTEXT, ...plain },
    { "@context": mill, ...plain },
    { "@context": mill, ...mine },
    whole({ "@context": mill, ...mine }),
  ])
    expect(await job(as, await capture(as, same))).toMatchObject({ success: true, errors: [] });
  const again = await as.post("/epcis/events", { "@context": [CONTEXT], ...plain });
  expect([again.status, again.body]).toEqual([201, { "@context": [CONTEXT], ...before }]);
  const answered = (await as.post("/epcis/events", { "@context": mill, ...mine })).body;
  expect(answered).toMatchObject({ "@context": expect.arrayContaining(mill ?? []), ...mine }); // declares what it says
  expect((await as.post("/epcis/events", answered)).body).toEqual(answered);
  for (const differing of [whole(mine, other), { "@context": other, ...mine }])
    expect(await job(as, await capture(as, differing))).toMatchObject({ success: false });
  const [a, b] = ["https://a.example/context", "https://b.example/context"].map((url) => [CONTEXT, url]); // what stands there, nobody reads
  const by = observed({ "mill:n": 1 });
  expect((await as.post("/epcis/events", { "@context": a, ...by })).status).toBe(201);
  expect(await job(as, await capture(as, whole(by, a)))).toMatchObject({ success: true });
  expect(refusal(await as.post("/epcis/events", { "@context": b, ...by })).slice(0, 2)).toEqual([409, "EVENT_EXISTS"]);
  expect((await as.post("/epcis/events", { "@context": a, ...plain })).status).toBe(201); // of which it says nothing
});

test("what declares an event an error repeats it under its id: both stay, in whichever order they came", async () => {
  const { as } = await tenant();
  const [wrong, elsewhere] = [observed(), observed()];
  const declared = (event: Json, more: Json = {}): Json => ({
    ...event,
    errorDeclaration: { declarationTime: "2026-11-22T00:00:00Z", ...more },
  });
  const of = ({ eventID }: Json) => ask(as, { EQ_eventID: eventID });
  expect(await job(as, await capture(as, document([declared(wrong), wrong])))).toMatchObject({ success: true, errors: [] });
  expect((await as.post("/epcis/events", declared(elsewhere))).status).toBe(201);
  for (const event of [declared(wrong), wrong, declared(elsewhere), elsewhere])
    expect(await job(as, await capture(as, document([event])))).toMatchObject({ success: true });
  for (const event of [wrong, elsewhere]) {
    expect(await of(event)).toEqual(
      expect.arrayContaining([expect.objectContaining(declared(event)), expect.not.objectContaining(declared(event))]),
    );
    expect(await of(event)).toHaveLength(2);
  }
  expect(found(await as.get(`/epcis/events/${encodeURIComponent(wrong["eventID"])}`))).toHaveLength(2);
  expect(idsOf(await ask(as, { EXISTS_errorDeclaration: "" })).toSorted()).toEqual(idsOf([wrong, elsewhere]).toSorted());
  expect((await walk(w.url, as, "perPage=1")).flat().toSorted()).toEqual(idsOf([wrong, wrong, elsewhere, elsewhere]).toSorted());

  const proceed = { "gs1-capture-error-behaviour": "proceed" };
  const [known, fresh] = [observed(), observed()];
  await capture(as, document([known]));
  for (const bad of [declared({ ...known, bizStep: "loading" }), declared(wrong, { reason: "incorrect_data" })]) {
    const error = { type: "epcisException:ResourceAlreadyExistsException", detail: expect.stringContaining(bad["eventID"]) };
    expect(await job(as, await capture(as, document([bad, fresh]), proceed))).toMatchObject({ success: false, errors: [error] });
    expect((await as.post("/epcis/events", bad)).status).toBe(409);
  }
  expect(await ask(as, { EQ_errorReason: "incorrect_data" })).toEqual([]);
  expect([await of(known), await of(fresh)]).toEqual([[expect.objectContaining(known)], [expect.objectContaining(fresh)]]);
});

test("an event that comes behind the word that it was an error is the one that the word is of, or an error itself", async () => {
  const { as } = await tenant();
  const declaredOf = (event: Json): Json => ({ ...event, errorDeclaration: { declarationTime: "2026-11-22T00:00:00Z" } });
  const [it, more] = [observed(), observed()];
  expect((await as.post("/epcis/events", declaredOf(it))).status).toBe(201);
  const other = { ...it, bizStep: "loading" };
  expect(refusal(await as.post("/epcis/events", other)).slice(0, 2)).toEqual([409, "EVENT_EXISTS"]);
  const error = { type: "epcisException:ResourceAlreadyExistsException", detail: expect.stringContaining(it["eventID"]) };
  const proceed = { "gs1-capture-error-behaviour": "proceed" };
  expect(await job(as, await capture(as, document([other, more, other]), proceed))).toMatchObject({
    success: false,
    errors: [error, error],
  });
  expect(await ask(as, { EQ_bizStep: "loading" })).toEqual([]);
  expect(await job(as, await capture(as, document([it, it])))).toMatchObject({ success: true });
  expect(await ask(as, { EQ_eventID: it["eventID"] })).toHaveLength(2);
  expect(await ask(as, { EQ_eventID: more["eventID"] })).toHaveLength(1);
});

test("beside the word of one capture that it was an error an event stays, if the two aren't one: the word alone is refused, whatever was declared before", async () => {
  const { as } = await tenant();
  const declaredOf = (event: Json): Json => ({ ...event, errorDeclaration: { declarationTime: "2026-11-22T00:00:00Z" } });
  for (const earlier of [false, true]) {
    if (earlier) await capture(as, declaredOf(observed()));
    const it = observed();
    const word = declaredOf({ ...it, bizStep: "loading" });
    for (const both of [
      [it, word],
      [word, it],
    ]) {
      const done = await job(as, await capture(as, document(both), { "gs1-capture-error-behaviour": "proceed" }));
      expect([earlier, done["errors"]]).toMatchObject([earlier, [{ type: "epcisException:ResourceAlreadyExistsException" }]]);
      expect((await ask(as, { EQ_eventID: it["eventID"] })).map((event) => event["bizStep"])).toEqual(["holding"]);
    }
  }
});

test("with proceed an invalid event is the job's error and the others are captured; where none is left the document is refused", async () => {
  const { as } = await tenant();
  const [good, bad] = [observed(), observed({ action: "LOOK" })];
  const proceed = { "gs1-capture-error-behaviour": "proceed" };
  const done = await job(as, await capture(as, document([bad, good]), proceed));
  expect(done).toMatchObject({
    success: false,
    captureErrorBehaviour: "proceed",
    errors: [{ type: "epcisException:ValidationException", status: 400 }],
  });
  expect(done["errors"][0].detail).toContain("epcisBody.eventList.0.action");
  expect(idsOf(await ask(as, {}))).toEqual([good["eventID"]]);
  expect((await capture(as, document([bad]), proceed)).status).toBe(400);
  expect((await capture(as, document([good]), { "gs1-capture-error-behaviour": "perhaps" })).body.error.details.fields).toMatchObject([
    { field: "GS1-Capture-Error-Behaviour" },
  ]);
  expect(await job(as, await capture(as, document([])))).toMatchObject({ success: true });
});

test("many hands with the same event make one of it, and an Idempotency-Key one job", async () => {
  const { as } = await tenant();
  const events = Array.from({ length: 20 }, () => observed());
  const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => capture(as, document(i % 2 ? events : events.toReversed()))));
  for (const answer of answers) expect(await job(as, answer)).toMatchObject({ success: true });
  expect(await ask(as, { perPage: "1000" })).toHaveLength(20);
  const key = { "idempotency-key": crypto.randomUUID() };
  const [one, two] = [await capture(as, document([observed()]), key), await capture(as, document([observed()]), key)];
  expect([two.status, two.body.error.code]).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
  const { eventID: _none, ...anonymous } = observed();
  const again = { "idempotency-key": crypto.randomUUID() };
  const [first, second] = [await capture(as, anonymous, again), await capture(as, anonymous, again)];
  expect([second.headers.get("location"), second.headers.get("idempotency-replayed")]).toEqual([first.headers.get("location"), "true"]);
  expect((await capture(as, anonymous, { ...again, "gs1-capture-error-behaviour": "proceed" })).status).toBe(409);
  expect(one.status).toBe(202);
});

test("tenants see their own events and jobs only, and the same id is another event in each", async () => {
  const [mill, bakery] = [await tenant(), await tenant()];
  const event = observed();
  const answer = await capture(mill.as, document([event]));
  const at = `/epcis/events/${encodeURIComponent(event["eventID"])}`;
  expect(refusal(await bakery.as.get(at))).toEqual([404, "NOT_FOUND", "epcisException:NoSuchResourceException"]);
  expect((await bakery.as.get(String(answer.headers.get("location")).replace("/api/v2", ""))).status).toBe(404);
  expect((await bakery.as.get("/epcis/capture")).body).toEqual([]);
  for (const query of [
    {},
    { MATCH_epc: event["epcList"][0] },
    { EQ_eventID: event["eventID"] },
    { MATCH_anyEPC: event["epcList"][0], EQ_bizStep: "holding" },
  ])
    expect(await ask(bakery.as, query as Record<string, string>)).toEqual([]);
  await job(bakery.as, await capture(bakery.as, document([{ ...event, bizStep: "loading" }])));
  expect(found(await mill.as.get(at))).toMatchObject([{ bizStep: "holding" }]);
  const reader = w.as((await w.admin.post("/api-keys", { name: "r", scopes: ["products:read"] })).body.data.secret);
  const denied = await capture(reader, document([event]), { accept: "application/problem+json" });
  expect([denied.body.type, denied.body.error.details]).toEqual([
    "epcisException:SecurityException",
    { required: ["epcis:capture"], available: ["products:read"] },
  ]);
  expect(refusal(await w.nobody.get("/epcis/events"))).toEqual([401, "UNAUTHORIZED", "epcisException:SecurityException"]);
});

test("those who read application/problem+json get a problem beside the error", async () => {
  const { as } = await tenant();
  const { body, headers, status } = await as.send("POST", "/epcis/capture", {
    json: document([{}]),
    headers: { accept: "application/problem+json, application/json" },
  });
  expect([status, headers.get("content-type")]).toEqual([400, "application/problem+json; charset=utf-8"]);
  expect(body).toMatchObject({
    type: "epcisException:ValidationException",
    title: "VALIDATION_ERROR",
    status: 400,
    detail: body.error.message,
  });
  const plain = await as.send("GET", "/products/none", { headers: { accept: "application/problem+json" } });
  expect(plain.body).toMatchObject({ type: "about:blank", status: 404, error: { code: "NOT_FOUND" } });
  const { schemas } = (await w.nobody.get("/openapi.json")).body.components;
  expect(Object.keys(plain.body).toSorted()).toEqual(schemas.Problem.required.toSorted());
});

test("OPTIONS tells what the standard's clients discover", async () => {
  const { as } = await tenant();
  const discovered = async (path: string) => {
    const { status, headers, text } = await as.send("OPTIONS", `/epcis${path}`);
    const named = ["allow", "gs1-epcis-version", "gs1-epcis-capture-limit", "gs1-capture-error-behaviour", "gs1-epc-format"];
    return [status, text, ...named.map((name) => headers.get(name))];
  };
  expect(await discovered("/capture")).toEqual([204, "", "GET, HEAD, OPTIONS, POST", "2.0.0", "10000", "all", null]);
  expect(await discovered("/events")).toEqual([204, "", "GET, HEAD, OPTIONS, POST", "2.0.0", "10000", "all", "Never_Translates"]);
  for (const path of ["/events/urn%3Ax%3Ay", "/bizSteps/shipping/events"])
    expect(await discovered(path)).toEqual([204, "", "GET, HEAD, OPTIONS", "2.0.0", null, null, "Never_Translates"]);
  const wrong = await as.send("DELETE", "/epcis/capture");
  expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS, POST"]);
  expect((await as.send("OPTIONS", "/products")).status).toBe(405);
});

test("more than one capture takes is 413 with the limits in headers", async () => {
  const { as } = await tenant();
  const limit = { events: "gs1-epcis-capture-limit", bytes: "gs1-epcis-capture-file-size-limit" };
  const many = await capture(as, document(Array.from({ length: limits.EPCIS_CAPTURE_MAX_EVENTS + 1 }, () => ({}))));
  expect(refusal(many)).toEqual([413, "CAPTURE_TOO_LARGE", "epcisException:CaptureLimitExceededException"]);
  expect([many.headers.get(limit.events), many.headers.get(limit.bytes)]).toEqual([
    String(limits.EPCIS_CAPTURE_MAX_EVENTS),
    String(limits.EPCIS_BODY_MAX_BYTES),
  ]);
  const epcList = Array.from({ length: limits.EPCIS_CAPTURE_MAX_KEYS + 1 }, (_, n) => `urn:x:${n}`);
  expect(refusal(await capture(as, document([observed({ epcList })])))).toEqual(refusal(many));
  const large = await capture(as, document([observed({ "urn:x:note": "x".repeat(limits.EPCIS_BODY_MAX_BYTES) })]));
  expect(refusal(large)).toEqual([413, "PAYLOAD_TOO_LARGE", "epcisException:CaptureLimitExceededException"]);
  expect(large.headers.get(limit.bytes)).toBe(String(limits.EPCIS_BODY_MAX_BYTES));
  const wide = await capture(as, document([observed()], { "@context": [CONTEXT, { x: "y".repeat(limits.EPCIS_CONTEXT_MAX_BYTES) }] }));
  expect(wide.status).toBe(400);
});

test("an event that is larger than one may be is refused by its place, and with proceed the others are captured", async () => {
  const { as } = await tenant();
  const bytes = limits.EPCIS_EVENT_MAX_BYTES;
  const sized = (size: number): Json => {
    const note = `ü${"x".repeat(size - JSON.stringify(observed({ "urn:x:note": "" })).length - 2)}`; // the ü has two
    return observed({ "urn:x:note": note });
  };
  const [fits, large] = [sized(bytes), sized(bytes + 1)];
  const refused = await capture(as, document([observed(), large]));
  expect(refusal(refused)).toEqual([400, "VALIDATION_ERROR", "epcisException:ValidationException"]);
  expect(refused.body.error.details.fields).toEqual([
    { field: "epcisBody.eventList.1", rule: "size", message: `has ${bytes + 1} bytes where ${bytes} may be` },
  ]);
  expect((await as.post("/epcis/events", large)).body.error.details.fields).toMatchObject([{ field: "body", rule: "size" }]);
  const done = await job(as, await capture(as, document([large, fits]), { "gs1-capture-error-behaviour": "proceed" }));
  expect(done).toMatchObject({
    success: false,
    errors: [{ type: "epcisException:ValidationException", detail: expect.stringContaining("epcisBody.eventList.0: has") }],
  });
  expect(idsOf(await ask(as, {}))).toEqual([fits.eventID]);
});

test("of an event with very many faults some are told; of one that is too large as well, that alone", async () => {
  const { as } = await tenant();
  const wrong = (count: number) =>
    document([observed({ persistentDisposition: { set: Array.from({ length: count }, (_, n) => `w${n}`) } })]);
  const some = await as.post("/epcis/capture", wrong(100_000));
  expect([some.status, some.body.error.details.fields.length]).toEqual([400, limits.FAULTS_MAX_ITEMS]);
  const many = await as.post("/epcis/capture", wrong(500_000)); // which were too many to hand on, and the answer was 500
  expect([many.status, many.body.error.details.fields]).toMatchObject([400, [{ field: "epcisBody.eventList.0", rule: "size" }]]);
});

test("a page of capture jobs ends where it has enough bytes of errors, and its link goes on from there", async () => {
  const { as } = await tenant();
  const wrong = observed({ epcList: Array.from({ length: 50 }, (_, n) => `no name ${n}`) });
  const body = document([observed(), ...Array.from({ length: limits.EPCIS_ERRORS_MAX_ITEMS }, () => wrong)]);
  const made: string[] = [];
  let bytes = 0;
  while (bytes < 1.1 * limits.EPCIS_PAGE_MAX_BYTES) {
    const answer = await capture(as, body, { "gs1-capture-error-behaviour": "proceed" });
    made.unshift(answer.body.captureID as string);
    bytes += answer.text.length;
  }
  const pages: string[][] = [];
  for (let at: string | undefined = "/epcis/capture?perPage=1000"; at;) {
    const { text, headers, body } = await as.get(at);
    pages.push((body as Json[]).map(({ captureID }) => captureID as string));
    expect(text.length).toBeLessThan(limits.EPCIS_PAGE_MAX_BYTES + 2 * (bytes / made.length));
    at = /^<([^>]+)>; rel="next"$/.exec(headers.get("link") ?? "")?.[1]?.replace(`${w.url}/api/v2`, "");
  }
  expect([pages.length, pages.flat()]).toEqual([2, made]);
});

test("the audit log has how many events of a capture failed, however few of their errors the job keeps", async () => {
  const { as } = await tenant();
  const [most, wrong] = [limits.EPCIS_ERRORS_MAX_ITEMS, observed({ epcList: ["no name"] })];
  const [kept, other] = [observed(), { bizStep: "loading" }];
  await capture(as, document([kept]));
  const all = [observed(), { ...kept, ...other }, ...Array.from({ length: most + 5 }, () => wrong)];
  const done = await job(as, await capture(as, document(all), { "gs1-capture-error-behaviour": "proceed" }));
  expect([done["success"], done["errors"].length]).toEqual([false, most]);
  const { data } = (await as.get("/audit-logs?action=product.events_captured&limit=1")).body;
  expect(data[0].details).toMatchObject({ stored: 1, failed: most + 6 });
});

test("inspecting a label of ours is verifying it: a scan is told of once, and of no one else's", async () => {
  const { as, id: tenantId } = await tenant();
  const stranger = await tenant();
  const gtin = "09506000134352";
  await w.store.write("a serial", async ({ db, now }) => {
    await db.insert(serials).values({ tenantId, serial: "777", gtin, productId: tenantId, n: 1, createdAt: now });
    for (const of of [tenantId, stranger.id]) await db.insert(subscriptions).values({ tenantId: of, type: "scan.recorded", webhookId: of });
  });
  const labels = [
    `https://id.mill.example/01/${gtin}/21/777`,
    "urn:epc:id:sgtin:9506000.013435.777", // the same one
    `https://id.mill.example/01/${gtin}/21/778`,
    "urn:epc:id:sgtin:9506000.013436.777",
  ];
  const event = observed({ bizStep: "inspecting", epcList: labels });
  for (const client of [as, stranger.as, as]) await job(client, await capture(client, document([event])));
  expect((await scans(tenantId)).map(({ body }) => JSON.parse(body))).toMatchObject([
    {
      type: "scan.recorded",
      data: { gtin, serial: "777", productId: tenantId, at: "2026-11-21T08:59:58.123Z", source: "epcis", eventId: event["eventID"] },
    },
  ]);
  expect(await scans(stranger.id)).toEqual([]);
  await capture(as, document([observed({ epcList: labels }), observed({ bizStep: "inspecting", action: "DELETE", epcList: labels })]));
  expect(await scans(tenantId)).toHaveLength(1);
  await as.post("/epcis/events", observed({ bizStep: "cbv:BizStep-inspecting", epcList: ["urn:epc:id:sgtin:9506000.013435.777"] }));
  expect(await scans(tenantId)).toHaveLength(2);
  const seenInError = { bizStep: "inspecting", epcList: labels, errorDeclaration: { declarationTime: "2026-11-22T00:00:00Z" } };
  expect(await job(as, await capture(as, document([observed(seenInError)])))).toMatchObject({ success: true });
  expect(await scans(tenantId)).toHaveLength(2);
});

test("what bears a product's own serial is a label of ours too, as it is at the resolver; a lot of that number isn't", async () => {
  const { as, id: tenantId } = await tenant();
  await w.store.write("listens", ({ db }) => db.insert(subscriptions).values({ tenantId, type: "scan.recorded", webhookId: tenantId }));
  const of = (gtin: string, granularity: string, serialNumber: string) =>
    as.post("/products", productOf({ gtin, granularity, serialNumber }));
  const item = (await of("09506000134352", "item", "32a/b")).body;
  const model = (await of("09506000134369", "model", "M-1")).body;
  await of("09506000134376", "batch", "L-1");
  const epcList = ["134352/21/32a%2Fb", "134369/21/M-1", "134376/21/L-1", "134352/21/M-1"].map(
    (end) => `https://id.gs1.org/01/09506000${end}`,
  );
  await as.post("/epcis/events", observed({ bizStep: "inspecting", epcList }));
  const told = (await scans(tenantId)).map(({ body }) => JSON.parse(body).data.productId as string);
  expect([told.length, new Set(told)]).toEqual([2, new Set([item.id, model.id])]);
});

test("the print loop's own events are the standard's: commissioned when sealed, decommissioned when voided", async () => {
  const { as, id } = await tenant();
  const label = {
    digitalLink: "https://id.mill.example/01/09506000134352/21/123456789",
    at: Date.parse("2026-11-21T08:00:00Z"),
    deviceId: crypto.randomUUID(),
  };
  const made = await w.store.write("sealed", (tx) => domain.commissioned(tx, id, label));
  const ended = await w.store.write("voided", (tx) =>
    domain.decommissioned(tx, id, { ...label, at: label.at + 1000, bizLocation: "https://id.mill.example/414/9506000134376" }),
  );
  const told = await ask(as, { MATCH_epc: "urn:epc:id:sgtin:9506000.013435.123456789", orderDirection: "ASC" });
  const common = {
    type: "ObjectEvent",
    eventTimeZoneOffset: "+00:00",
    epcList: [label.digitalLink],
    readPoint: { id: `urn:uuid:${label.deviceId}` },
    recordTime: expect.any(String),
  };
  expect(told).toEqual([
    { ...common, eventID: made, eventTime: "2026-11-21T08:00:00.000Z", action: "ADD", bizStep: "commissioning", disposition: "active" },
    {
      ...common,
      eventID: ended,
      eventTime: "2026-11-21T08:00:01.000Z",
      action: "DELETE",
      bizStep: "decommissioning",
      disposition: "inactive",
      bizLocation: { id: "https://id.mill.example/414/9506000134376" },
    },
  ]);
  const { as: other } = await tenant();
  expect(await job(other, await capture(other, document(told)))).toMatchObject({ success: true });
});

test("where an event is said to be it is, however long its id", async () => {
  const { as } = await tenantOf(w);
  const made = await as.post("/epcis/events", observed({ eventID: `https://mill.example/${"event/".repeat(80)}` }));
  expect(made.status).toBe(201);
  expect((await as.get(made.headers.get("location")?.replace("/api/v2", "") ?? "")).status).toBe(200);
});

test.runIf(engine === "postgres")(
  "many inspections, and declared errors, come in one capture, and again, where the store is far away",
  async (t) => {
    const near = (await freshDatabase()) ?? "";
    const distance = await startDistance(near, 4);
    t.onTestFinished(distance.end);
    const far = await world({ databaseUrl: Object.assign(new URL(near), { host: new URL(distance.url).host }).href });
    t.onTestFinished(far.close);
    const { admin, gtin, allocate } = await printShop(far);
    const inspected = (await allocate(700)).map((serial) =>
      observed({ bizStep: "inspecting", epcList: [`https://id.gs1.org/01/${gtin}/21/${serial}`] }),
    );
    const declared = inspected.map((event) => ({ ...event, errorDeclaration: { declarationTime: "2026-11-22T09:00:00Z" } }));
    for (const [what, events] of Object.entries({ inspected, again: inspected, declared, "declared again": declared })) {
      const answer = await capture(admin, document(events));
      expect([what, answer.status]).toEqual([what, 202]);
    }
  },
  120_000,
);

test("scans are told of in the order of their events, however many things each names", async () => {
  const { admin, gtin, allocate, tenantId } = await printShop(w);
  const all = await allocate(20);
  const other = (n: number) => `https://id.gs1.org/01/09506000134376/21/${n}`;
  const events = all.map((serial, n) =>
    observed({
      bizStep: "inspecting",
      epcList: [...(n % 10 === 0 ? Array.from({ length: 600 }, (_, i) => other(1 + i)) : []), `https://id.gs1.org/01/${gtin}/21/${serial}`],
    }),
  );
  await w.store.write(
    "somebody listens",
    async ({ db }) => void (await db.insert(subscriptions).values({ tenantId, type: "scan.recorded", webhookId: tenantId })),
  );
  expect((await capture(admin, document(events))).status).toBe(202);
  const told = await scans(tenantId);
  expect(told.map(({ body }) => (JSON.parse(body) as { data: { serial: string } }).data.serial)).toEqual(all);
});
