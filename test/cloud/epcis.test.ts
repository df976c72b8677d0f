// EPCIS 2.0: what the standard takes is taken and comes back as it was, what it refuses is refused by name; each event once, each tenant its own.
import { globSync, readFileSync } from "node:fs";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { cbv } from "#shared/cbv.ts";
import { limits } from "#shared/limits.ts";
import * as domain from "../../cloud/domain/epcis.ts";
import { outbox, serials, subscriptions } from "../../cloud/store/schema.ts";
import type { Answer, Client } from "../../fixtures/client.ts";
import { world } from "../world.ts";

const w = await world();
type Json = Record<string, any>; // oxlint-disable-line typescript/no-explicit-any -- events are whatever the file says
const CONTEXT = "https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld";
const fixture = (name: string) => JSON.parse(readFileSync(`fixtures/data/epcis/${name}.json`, "utf8")) as Json;
const names = globSync("fixtures/data/epcis/*.json").map((file) => file.replace(/^.*[\\/]|\.json$/g, ""));
const eventsOf = ({ epcisBody: { eventList, event, queryResults } }: Json): Json[] =>
  eventList ?? queryResults?.resultsBody.eventList ?? [event];

async function tenant(): Promise<{ as: Client; id: string }> {
  const { data, adminKey } = (await w.admin.post("/tenants", { name: "mill" })).body;
  return { as: w.as(adminKey.secret), id: data.id };
}
const document = (eventList: unknown[], more: Json = {}): Json => ({
  "@context": [CONTEXT],
  type: "EPCISDocument",
  schemaVersion: "2.0",
  creationDate: "2026-11-21T09:00:00Z",
  epcisBody: { eventList },
  ...more,
});
const observed = (more: Json = {}): Json => ({
  type: "ObjectEvent",
  eventID: `urn:uuid:${crypto.randomUUID()}`,
  eventTime: "2026-11-21T08:59:58.123Z",
  eventTimeZoneOffset: "+00:00",
  action: "OBSERVE",
  bizStep: "holding",
  epcList: ["urn:epc:id:sgtin:9506000.013435.42"],
  ...more,
});
const capture = (as: Client, body: unknown, headers: Record<string, string> = {}) => as.post("/epcis/capture", body, headers);
async function job(as: Client, answer: Answer): Promise<Json> {
  expect([answer.status, answer.text]).toEqual([202, ""]);
  return (await as.get(String(answer.headers.get("location")).replace("/api/v2", ""))).body;
}
const found = (answer: Answer): Json[] => {
  expect([answer.status, answer.body?.error]).toEqual([200, undefined]);
  return eventsOf(answer.body);
};
const ask = async (as: Client, query: Record<string, string>) =>
  found(await as.get(`/epcis/events?${new URLSearchParams(query).toString()}`));
const idsOf = (events: Json[]) => events.map(({ eventID }) => eventID as string);
const refusal = ({ status, body }: Answer) => [status, body.error.code, body.error.details?.epcisType];

test.each(names)("%s is captured in a finished job, and each of its events comes back as it was", async (name) => {
  const { as } = await tenant();
  const sent = fixture(name);
  const answer = await capture(as, sent, { "content-type": "application/ld+json", "gs1-capture-error-behaviour": "rollback" });
  expect([answer.headers.get("gs1-epcis-version"), answer.headers.get("gs1-cbv-version")]).toEqual(["2.0.0", "2.0.0"]);
  expect(answer.headers.get("gs1-capture-error-behaviour")).toBe("rollback");
  const done = await job(as, answer);
  expect(done).toEqual({
    captureID: answer.headers.get("location")?.replace("/api/v2/epcis/capture/", ""),
    createdAt: expect.stringMatching(/Z$/),
    finishedAt: expect.stringMatching(/Z$/),
    running: false,
    success: true,
    captureErrorBehaviour: "rollback",
    errors: [],
  });
  for (const event of eventsOf(sent)) {
    const one = await as.get(`/epcis/events/${encodeURIComponent(event.eventID)}`);
    expect(found(one)).toEqual([{ ...event, recordTime: done["createdAt"] }]);
    expect(one.body["@context"]).toEqual([sent["@context"]].flat());
  }
  expect(idsOf(await ask(as, {})).toSorted()).toEqual(idsOf(eventsOf(sent)).toSorted());
});

type Change = (event: Json, sent: Json) => unknown;
const faulty: [rule: string, file: string, field: string, change: Change][] = [
  ["a document says its context", "object", "@context", (_e, sent) => delete sent["@context"]],
  ["a context is URLs and declarations", "object", "@context", (_e, sent) => (sent["@context"] = ["here"])],
  ["a document's version is 2", "object", "schemaVersion", (_e, sent) => (sent["schemaVersion"] = "1.2")],
  ["a document says when it was made", "object", "creationDate", (_e, sent) => delete sent["creationDate"]],
  ["a document has a body", "object", "epcisBody", (_e, sent) => delete sent["epcisBody"]],
  ["a document has no fields of its own without a namespace", "object", "comment", (_e, sent) => (sent["comment"] = "x")],
  ["a list of events is a list", "object", "epcisBody.eventList", (_e, sent) => (sent["epcisBody"].eventList = {})],
  ["an event is an object", "object", "epcisBody.eventList.0", (_e, sent) => (sent["epcisBody"].eventList[0] = "x")],
  [
    "a query's answer has a name",
    "query-document",
    "epcisBody.queryResults.queryName",
    (_e, sent) => delete sent["epcisBody"].queryResults.queryName,
  ],
  ["an event has a type of the standard's or a URI", "object", "type", (event) => (event["type"] = "QuantityEvent")],
  ["an event says when it happened", "object", "eventTime", (event) => delete event["eventTime"]],
  ["a time says its offset", "object", "eventTime", (event) => (event["eventTime"] = "2026-11-20T08:15:30")],
  ["a time exists", "object", "eventTime", (event) => (event["eventTime"] = "2026-02-30T08:15:30Z")],
  ["an event says where on the clock", "object", "eventTimeZoneOffset", (event) => delete event["eventTimeZoneOffset"]],
  ["an offset isn't Z", "object", "eventTimeZoneOffset", (event) => (event["eventTimeZoneOffset"] = "Z")],
  ["an offset is at most 14 hours", "object", "eventTimeZoneOffset", (event) => (event["eventTimeZoneOffset"] = "+14:30")],
  ["an action is one of three", "object", "action", (event) => (event["action"] = "add")],
  ["an action is required", "object", "action", (event) => delete event["action"]],
  [
    "a step of the CBV is a bare word, not a URN",
    "object",
    "bizStep",
    (event) => (event["bizStep"] = "urn:epcglobal:cbv:bizstep:shipping"),
  ],
  ["nor of the old namespace", "object", "bizStep", (event) => (event["bizStep"] = "https://ns.gs1.org/cbv/BizStep-shipping")],
  ["a step that the CBV hasn't is a URI", "object", "bizStep", (event) => (event["bizStep"] = "shiping")],
  ["a disposition likewise", "object", "disposition", (event) => (event["disposition"] = "urn:epcglobal:cbv:disp:active")],
  ["a lasting one likewise", "object", "persistentDisposition.set.0", (event) => (event["persistentDisposition"].set = ["fine"])],
  ["a lasting one sets or unsets", "object", "persistentDisposition", (event) => (event["persistentDisposition"] = {})],
  ["an id is a URI", "object", "eventID", (event) => (event["eventID"] = "42")],
  ["a UUID is whole", "object", "eventID", (event) => (event["eventID"] = "urn:uuid:42")],
  ["a hash says its version", "object", "eventID", (event) => (event["eventID"] = `ni:///sha-256;${"a".repeat(64)}`)],
  ["a hash is whole", "object", "eventID", (event) => (event["eventID"] = "ni:///sha-256;abc?ver=CBV2.0")],
  ["an EPC is a URI", "object", "epcList.0", (event) => (event["epcList"] = ["303400"])],
  ["an EPC stands once", "object", "epcList", (event) => (event["epcList"] = ["urn:a:b", "urn:a:b"])],
  [
    "a GTIN's check digit is right",
    "object",
    "epcList.0",
    (event) => (event["epcList"] = ["https://id.mill.example/01/09506000134353/21/1"]),
  ],
  ["a link's GTIN has 14 digits", "object", "epcList.0", (event) => (event["epcList"] = ["https://id.mill.example/01/9506000134352/21/1"])],
  [
    "a serial has 20 characters",
    "object",
    "epcList.0",
    (event) => (event["epcList"] = [`https://id.mill.example/01/09506000134352/21/${"1".repeat(21)}`]),
  ],
  [
    "qualifiers have their order",
    "object",
    "epcList.0",
    (event) => (event["epcList"] = ["https://id.mill.example/01/09506000134352/21/1/10/A"]),
  ],
  ["a URN's digits are 13", "object", "epcList.0", (event) => (event["epcList"] = ["urn:epc:id:sgtin:9506000.13435.42"])],
  ["a class isn't a thing", "object", "epcList.0", (event) => (event["epcList"] = ["urn:epc:idpat:sgtin:9506000.013435.*"])],
  ["a link to a class isn't either", "object", "epcList.0", (event) => (event["epcList"] = ["https://id.mill.example/01/09506000134352"])],
  ["what a tag holds isn't a name", "object", "epcList.0", (event) => (event["epcList"] = ["urn:epc:tag:sgtin-96:3.9506000.013435.42"])],
  [
    "an SSCC's check digit is right",
    "aggregation",
    "parentID",
    (event) => (event["parentID"] = "https://id.mill.example/00/095060000000000173"),
  ],
  [
    "a GLN's check digit is right",
    "object",
    "readPoint.id",
    (event) => (event["readPoint"].id = "https://id.mill.example/414/9506000134377"),
  ],
  ["a place has an id", "object", "readPoint.id", (event) => delete event["readPoint"].id],
  ["a quantity is a number", "object", "quantityList.0.quantity", (event) => (event["quantityList"][0].quantity = "12")],
  ["a unit is a code of Rec 20", "object", "quantityList.0.uom", (event) => (event["quantityList"][0].uom = "kilo")],
  ["a quantity is of something", "object", "quantityList.0.epcClass", (event) => delete event["quantityList"][0].epcClass],
  [
    "a quantity is of a class",
    "object",
    "quantityList.0.epcClass",
    (event) => (event["quantityList"][0].epcClass = "urn:epc:id:sgtin:9506000.013435.42"),
  ],
  ["a quantity has no other fields", "object", "quantityList.0.lot", (event) => (event["quantityList"][0].lot = "1")],
  [
    "an addition names what begins",
    "object",
    "epcList",
    (event) => {
      event["epcList"] = [];
      delete event["quantityList"];
      delete event["sensorElementList"];
    },
  ],
  ["an event without a place senses nothing", "sensor", "epcList", (event) => delete event["readPoint"]],
  ["master data of a thing comes with its beginning", "object", "ilmd", (event) => (event["action"] = "OBSERVE")],
  ["its fields have namespaces", "object", "ilmd.colour", (event) => (event["ilmd"].colour = "red")],
  ["a field of one's own has a namespace", "object", "comment", (event) => (event["comment"] = "x")],
  ["which a context declares", "object", "other:comment", (event) => (event["other:comment"] = "x")],
  [
    "a transaction is a URI",
    "object",
    "bizTransactionList.0.bizTransaction",
    (event) => (event["bizTransactionList"][0].bizTransaction = "PO 77"),
  ],
  [
    "its type is a word of the CBV",
    "object",
    "bizTransactionList.0.type",
    (event) => (event["bizTransactionList"][0].type = "urn:epcglobal:cbv:btt:po"),
  ],
  ["a source has a type", "object", "sourceList.0.type", (event) => delete event["sourceList"][0].type],
  ["a certificate is a URI", "object", "certificationInfo", (event) => (event["certificationInfo"] = 7)],
  ["a sensor reports", "object", "sensorElementList.0.sensorReport", (event) => (event["sensorElementList"][0].sensorReport = [])],
  [
    "a report says of what",
    "object",
    "sensorElementList.0.sensorReport.0.type",
    (event) => delete event["sensorElementList"][0].sensorReport[0].type,
  ],
  [
    "in a word of GS1's",
    "object",
    "sensorElementList.0.sensorReport.0.type",
    (event) => (event["sensorElementList"][0].sensorReport[0].type = "gs1.org/voc/Temperature"),
  ],
  [
    "which is bare",
    "object",
    "sensorElementList.0.sensorReport.0.type",
    (event) => (event["sensorElementList"][0].sensorReport[0].type = "https://gs1.org/voc/Temperature"),
  ],
  [
    "a value is a number",
    "object",
    "sensorElementList.0.sensorReport.0.value",
    (event) => (event["sensorElementList"][0].sensorReport[0].value = "21"),
  ],
  [
    "hex is hex",
    "object",
    "sensorElementList.0.sensorReport.1.hexBinaryValue",
    (event) => (event["sensorElementList"][0].sensorReport[1].hexBinaryValue = "0x1"),
  ],
  [
    "an alert is a known one",
    "object",
    "sensorElementList.0.sensorReport.1.exception",
    (event) => (event["sensorElementList"][0].sensorReport[1].exception = "FIRE"),
  ],
  ["an error says since when", "error", "errorDeclaration.declarationTime", (event) => delete event["errorDeclaration"].declarationTime],
  ["and why, in the CBV's words", "error", "errorDeclaration.reason", (event) => (event["errorDeclaration"].reason = "oops")],
  [
    "corrections are ids",
    "error",
    "errorDeclaration.correctiveEventIDs.0",
    (event) => (event["errorDeclaration"].correctiveEventIDs = ["no"]),
  ],
  ["parts are added to something", "aggregation", "parentID", (event) => delete event["parentID"]],
  [
    "something is added",
    "aggregation",
    "childEPCs",
    (event) => {
      delete event["childEPCs"];
      event["childQuantityList"] = [];
    },
  ],
  ["an association has a parent", "association", "parentID", (event) => delete event["parentID"]],
  ["a transaction is named", "transaction", "bizTransactionList", (event) => (event["bizTransactionList"] = [])],
  [
    "and what takes part in it",
    "transaction",
    "epcList",
    (event) => {
      delete event["epcList"];
      delete event["quantityList"];
    },
  ],
  ["a transformation has no action", "transformation", "action", (event) => (event["action"] = "ADD")],
  [
    "a transformation has outputs",
    "transformation",
    "outputEPCList",
    (event) => {
      delete event["outputEPCList"];
      delete event["outputQuantityList"];
      delete event["transformationID"];
    },
  ],
  [
    "a transformation has something",
    "transformation",
    "inputEPCList",
    (event) => {
      for (const name of ["inputEPCList", "inputQuantityList", "outputEPCList", "outputQuantityList"]) delete event[name];
    },
  ],
];

test.each(faulty)("%s: else %s.json is refused at %s", async (_rule, file, field, change) => {
  const { as } = await tenant();
  const sent = fixture(file);
  change(eventsOf(sent)[0] as Json, sent);
  const answer = await capture(as, sent);
  expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:ValidationException"]);
  const fields = answer.body.error.details.fields.map((fault: Json) => fault["field"]);
  expect(fields).toContainEqual(expect.stringMatching(new RegExp(`(^|\\.0\\.|^)${RegExp.escape(field)}$`)));
  expect(await ask(as, {})).toEqual([]);
});

test("a bare event is captured either way, needs no context, and gets an id where it has none", async () => {
  const { as } = await tenant();
  const { eventID: _none, ...anonymous } = observed();
  expect(await job(as, await capture(as, anonymous))).toMatchObject({ success: true });
  const [first] = await ask(as, {});
  expect(first?.["eventID"]).toMatch(/^urn:uuid:[0-9a-f-]{36}$/);
  const event: Json = { "@context": [CONTEXT, { mill: "https://mill.example/" }], ...observed({ "mill:n": 1 }) };
  const answer = await as.post("/epcis/events", event);
  expect([answer.status, answer.headers.get("location")]).toEqual([201, `/api/v2/epcis/events/${encodeURIComponent(event["eventID"])}`]);
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
  expect((await as.post("/epcis/events", known)).status).toBe(201);
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

const u = (n: number) => `urn:uuid:00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
const hash = `ni:///sha-256;${"0123456789abcdef".repeat(4)}?ver=CBV2.0`;
const all = await tenant();
for (const name of names) await job(all.as, await capture(all.as, fixture(name)));
const asked: [what: string, query: Record<string, string>, ids: string[]][] = [
  ["a type", { eventType: "TransformationEvent|mill:RollerEvent" }, [u(7), u(8), u(13)]],
  ["an action", { EQ_action: "DELETE" }, [u(3), u(6), u(10), u(14)]],
  ["a step", { EQ_bizStep: "shipping" }, [u(5), hash]],
  [
    "a step as a URI",
    { EQ_bizStep: "https://ref.gs1.org/cbv/BizStep-disassembling|https://ref.gs1.org/cbv/BizStep-packing" },
    [u(2), u(10)],
  ],
  ["a step that was spelt otherwise", { EQ_bizStep: "holding|disassembling" }, [u(10), u(15)]],
  ["a disposition of one's own", { EQ_disposition: "https://mill.example/disposition/resting" }, [u(15)]],
  ["a lasting disposition", { EQ_persistentDisposition_set: "conformant|completeness_verified" }, [u(1), u(7)]],
  ["one that ended", { EQ_persistentDisposition_unset: "completeness_inferred" }, [u(1)]],
  ["a read point", { EQ_readPoint: "https://id.mill.example/414/9506000134376/254/gate-07", eventType: "ObjectEvent" }, [u(1), u(11)]],
  ["what lies in it", { WD_readPoint: "https://mill.example/roller/1" }, [u(13)]],
  ["a location", { EQ_bizLocation: "urn:epc:id:sgln:9506000.13437.0", EQ_action: "ADD" }, [u(1), u(2), u(9)]],
  ["ids", { EQ_eventID: `${u(2)}|${hash}` }, [u(2), hash]],
  ["a thing", { MATCH_epc: "urn:epc:id:sgtin:9506000.013435.42" }, [u(1), u(2), u(4), hash]],
  ["a thing by the link of any resolver", { MATCH_epc: "https://id.gs1.org/01/09506000134352/21/42" }, [u(1), u(2), u(4), hash]],
  ["a thing anywhere", { MATCH_anyEPC: "https://other.example/x/01/09506000134352/21/42" }, [u(1), u(2), u(4), u(7), hash]],
  ["a serial with a slash", { MATCH_epc: "urn:epc:id:sgtin:9506000.013435.A%2F7" }, [u(1)]],
  ["all serials of an item", { MATCH_epc: "urn:epc:idpat:sgtin:9506000.013435.*", eventType: "ObjectEvent" }, [u(1), u(14), hash]],
  ["all items of a company", { MATCH_anyEPC: "urn:epc:idpat:sgtin:9506000.*.*", EQ_action: "OBSERVE" }, [u(4), hash]],
  ["all serials that begin so", { MATCH_anyEPC: "https://id.gs1.org/01/09506000134352/21/90*" }, [u(7), u(8), u(14)]],
  ["a parent", { MATCH_parentID: "urn:epc:id:sscc:9506000.0000000017" }, [u(2), u(3)]],
  ["an input", { MATCH_inputEPC: "urn:epc:id:sgtin:9506000.013435.42" }, [u(7)]],
  ["an output", { MATCH_outputEPC: "urn:epc:id:sgtin:9506000.013435.901" }, [u(8)]],
  ["a class", { MATCH_epcClass: "urn:epc:idpat:sgtin:9506000.013435.*" }, [u(1), u(2), u(5)]],
  ["lots of a class", { MATCH_anyEPCClass: "urn:epc:class:lgtin:9506000.013435.*" }, [u(1), u(7)]],
  ["a class put in", { MATCH_inputEPCClass: "urn:epc:class:lgtin:9506000.013435.LOT-1" }, [u(7)]],
  ["a class that came out", { MATCH_outputEPCClass: "https://id.gs1.org/01/09506000134352/10/L2" }, [u(7)]],
  ["a transaction of a type", { EQ_bizTransaction_po: "urn:epcglobal:cbv:bt:9506000134376:PO-77" }, [u(1)]],
  ["none of another type", { EQ_bizTransaction_inv: "urn:epcglobal:cbv:bt:9506000134376:PO-77" }, []],
  ["a source", { EQ_source_owning_party: "urn:epc:id:pgln:9506000.13437" }, [u(1), u(5)]],
  ["a destination", { EQ_destination_location: "https://id.mill.example/414/9506000134376", EQ_bizStep: "shipping" }, [u(5)]],
  ["a transformation", { EQ_transformationID: "urn:epc:id:gdti:9506000.55555.1" }, [u(7), u(8)]],
  ["errors", { EXISTS_errorDeclaration: "" }, [hash]],
  ["errors of a time", { GE_errorDeclarationTime: "2026-11-21T08:00:00+01:00", LT_errorDeclarationTime: "2026-11-21T07:00:01Z" }, [hash]],
  ["errors for a reason", { EQ_errorReason: "did_not_occur" }, []],
  ["what corrects", { EQ_correctiveEventID: u(1) }, [hash]],
  ["a measurement by a device", { EQ_type: "Temperature", EQ_deviceID: "https://id.mill.example/8004/9506000AB12" }, [u(1), u(11)]],
  ["a time", { GE_eventTime: "2026-11-20T14:15:30.250+01:00", LT_eventTime: "2026-11-20T15:15:30.250Z" }, [u(13), u(14)]],
  ["a record's time", { LT_recordTime: "2026-01-01T00:00:00Z" }, []],
  ["quotes and percent signs", { EQ_readPoint: "%' OR 1=1 --" }, []],
];
test.each(asked)("a query for %s finds just that", async (_what, query, ids) => {
  expect(idsOf(await ask(all.as, query)).toSorted()).toEqual(ids.toSorted());
});

test("things, steps, places and types have events at addresses of their own, each id decoded once", async () => {
  const at = async (path: string, id: string) => idsOf(found(await all.as.get(`/epcis/${path}/${encodeURIComponent(id)}/events`)));
  expect(await at("epcs", "https://id.gs1.org/01/09506000134352/21/A%2F7")).toEqual([u(1)]);
  expect(await at("bizSteps", "packing")).toEqual([u(2)]);
  expect(await at("dispositions", "https://mill.example/disposition/resting")).toEqual([u(15)]);
  expect(await at("readPoints", "https://mill.example/roller/1")).toEqual([u(13)]);
  expect((await at("bizLocations", "urn:epc:id:sgln:9506000.13437.0")).length).toBeGreaterThan(3);
  expect(await at("eventTypes", "mill:RollerEvent")).toEqual([u(13)]);
  expect(refusal(await all.as.get("/epcis/bizSteps/killing/events"))).toEqual([404, "NOT_FOUND", "epcisException:NoSuchResourceException"]);
  expect(found(await all.as.get(`/epcis/events/${encodeURIComponent(hash)}`))).toHaveLength(1);
});

test.each([
  ["a name that the query language hasn't", { EQ_colour: "red" }, "EQ_colour"],
  ["a misspelt one", { MATCH_EPC: "urn:a:b" }, "MATCH_EPC"],
  ["one with a prototype's name", { constructor: "x" }, "constructor"],
  ["an action there isn't", { EQ_action: "ADD|LOOK" }, "EQ_action"],
  ["a time that isn't one", { GE_eventTime: "yesterday" }, "GE_eventTime"],
  ["an empty value", { EQ_bizStep: "" }, "EQ_bizStep"],
  ["an order there isn't", { orderBy: "colour" }, "orderBy"],
  ["a direction there isn't", { orderDirection: "UP" }, "orderDirection"],
  ["both ways to limit", { eventCountLimit: "1", maxEventCount: "1" }, "maxEventCount"],
  ["a page of nothing", { perPage: "0" }, "perPage"],
  ["a token of somebody else's", { nextPageToken: "abc" }, "nextPageToken"],
  ["a pattern of everything", { MATCH_epc: "*" }, "MATCH_epc"],
  ["too many values", { EQ_eventID: Array.from({ length: 101 }, (_, n) => u(n)).join("|") }, "EQ_eventID"],
])("%s is refused by name", async (_what, query, field) => {
  const answer = await all.as.get(`/epcis/events?${new URLSearchParams(query as Record<string, string>).toString()}`);
  expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:QueryParameterException"]);
  expect(answer.body.error.details.fields).toMatchObject([{ field }]);
});

/** All pages by their links, and what happened between them. */
async function walk(as: Client, query: string, between: () => Promise<unknown> = async () => {}): Promise<string[][]> {
  const pages: string[][] = [];
  for (let at: string | undefined = `/epcis/events?${query}`; at;) {
    const answer: Answer = await as.get(at);
    pages.push(idsOf(found(answer)));
    const link = /^<([^>]+)>; rel="next"$/.exec(answer.headers.get("link") ?? "")?.[1];
    expect(link === undefined || link.startsWith(`${w.url}/api/v2/`)).toBe(true);
    at = link?.replace(`${w.url}/api/v2`, "");
    await between();
  }
  return pages;
}

test("pages hold together while events come in, in either order, by events and by what they name", async () => {
  const { as } = await tenant();
  const instant = (n: number) => new Date(Date.parse("2026-11-01T00:00:00Z") + Math.floor(n / 3) * 1000).toISOString();
  const many = Array.from({ length: 95 }, (_, n) => observed({ eventTime: instant(n) }));
  await job(as, await capture(as, document(many)));
  const later = () => capture(as, document([observed({ eventTime: "2026-11-20T00:00:00Z" })]));
  const newest = (await walk(as, "perPage=10", later)).flat();
  expect(newest.toSorted()).toEqual(idsOf(many).toSorted());
  const times = newest.map((id) => String(many.find((event) => event["eventID"] === id)?.["eventTime"]));
  expect(times).toEqual(times.toSorted().toReversed());
  const mine = "LT_eventTime=2026-11-02T00:00:00Z";
  expect((await walk(as, `${mine}&perPage=10&orderDirection=ASC`)).flat()).toEqual(newest.toReversed());
  expect((await walk(as, `${mine}&perPage=40&orderBy=recordTime`)).map((page) => page.length)).toEqual([40, 40, 15]);
  const epc = encodeURIComponent("urn:epc:id:sgtin:9506000.013435.42");
  expect((await walk(as, `${mine}&perPage=10&MATCH_epc=${epc}`)).flat()).toEqual(newest);
  expect((await walk(as, mine)).map((page) => page.length)).toEqual([30, 30, 30, 5]);
  expect((await walk(as, `${mine}&perPage=10&eventCountLimit=25`)).map((page) => page.length)).toEqual([10, 10, 5]);
  expect((await walk(as, `${mine}&maxEventCount=95`)).flat()).toHaveLength(95);
  expect(refusal(await as.get(`/epcis/events?${mine}&maxEventCount=94`))).toEqual([
    413,
    "QUERY_TOO_LARGE",
    "epcisException:QueryTooLargeException",
  ]);
});

test("jobs are listed newest first, page by page", async () => {
  const { as } = await tenant();
  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1) ids.unshift((await job(as, await capture(as, document([observed()]))))["captureID"]);
  const first = await as.get("/epcis/capture?perPage=3");
  const second = await as.get(String(/^<([^>]+)>/.exec(first.headers.get("link") ?? "")?.[1]).replace(`${w.url}/api/v2`, ""));
  expect([...first.body, ...second.body].map(({ captureID }: Json) => captureID)).toEqual(ids);
  expect(second.headers.get("link")).toBeNull();
});

test("two meanings of one prefix stay apart in one answer", async () => {
  const { as } = await tenant();
  for (const to of ["https://a.example/", "https://b.example/"])
    await capture(as, document([observed({ "x:n": 1 })], { "@context": [CONTEXT, { x: to }] }));
  const meanings = ({ body }: Answer) => eventsOf(body).map((event): string => event["@context"]?.[0].x ?? body["@context"][1].x);
  const answer = await as.get("/epcis/events");
  expect(meanings(answer).toSorted()).toEqual(["https://a.example/", "https://b.example/"]);
  const { as: copy } = await tenant();
  expect(await job(copy, await capture(copy, answer.body))).toMatchObject({ success: true });
  expect(meanings(await copy.get("/epcis/events"))).toEqual(meanings(answer));
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

test("thousands of events are one job, and all are found", async () => {
  const { as } = await tenant();
  const many = Array.from({ length: 5_000 }, (_, n) => observed({ epcList: [`urn:epc:id:sgtin:9506000.013435.${n + 1}`] }));
  expect(await job(as, await capture(as, document(many)))).toMatchObject({ success: true });
  expect((await walk(as, "perPage=1000")).flat()).toHaveLength(5_000);
  expect(idsOf(await ask(as, { MATCH_epc: "urn:epc:id:sgtin:9506000.013435.4321" }))).toEqual([many[4320]?.["eventID"]]);
});

const nested = (levels: number): unknown => (levels === 0 ? 1 : { "mill:x": nested(levels - 1) });
test.each([
  ["a prototype's key", () => `{"type":"ObjectEvent","__proto__":{"action":"ADD"}}`],
  ["a prototype's key deep inside", () => JSON.stringify(observed({ "urn:x:y": { constructor: {} } }))],
  ["deep nesting", () => JSON.stringify(observed({ "urn:x:y": nested(50) }))],
  ["very deep nesting", () => `{"type":"ObjectEvent","urn:x:y":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
  ["a deep context", () => JSON.stringify(document([observed()], { "@context": [CONTEXT, { x: nested(50) }] }))],
  ["a NUL", () => JSON.stringify(observed({ "urn:x:y": "a\0b" }))],
  ["half a character", () => JSON.stringify(observed({ "urn:x:y": "@" })).replace("@", "\\ud800")],
  ["a type with a prototype's name", () => JSON.stringify(observed({ type: "constructor" }))],
  ["no type", () => "{}"],
  ["a list", () => "[]"],
  ["null", () => "null"],
  ["nothing", () => ""],
  ["a type that is an object", () => JSON.stringify({ type: {} })],
  ["a body that is null", () => JSON.stringify({ ...document([]), epcisBody: null })],
  [
    "fields of the wrong kind throughout",
    () => JSON.stringify(Object.fromEntries(Object.keys(observed()).map((name) => [name, name === "type" ? "ObjectEvent" : null]))),
  ],
  ["a name with a hundred thousand stars", () => JSON.stringify(observed({ epcList: [`urn:epc:id:sgtin:${"*".repeat(100_000)}`] }))],
  ["a link with a hundred thousand slashes", () => JSON.stringify(observed({ epcList: [`https://a.example${"/01".repeat(100_000)}`] }))],
  ["a time with a hundred thousand digits", () => JSON.stringify(observed({ eventTime: `2026-01-01T00:00:00.${"1".repeat(100_000)}Z` }))],
  ["a hundred thousand wrong names", () => JSON.stringify(observed({ epcList: Array.from({ length: 100_000 }, (_, n) => n) }))],
])("%s is refused in a documented way", async (_what, body) => {
  const { as } = await tenant();
  const answer = await as.send("POST", "/epcis/capture", { body: body(), headers: { "content-type": "application/json" } });
  expect([answer.status, answer.body.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  expect(answer.body.error.details.fields.length).toBeLessThanOrEqual(limits.FAULTS_MAX_ITEMS);
  expect((await as.get("/epcis/events")).status).toBe(200);
});

const word = (text: string) => fc.constantFrom(...text.split(/\s+/));
const uri = fc.stringMatching(/^[a-z0-9.-]{1,20}$/).map((text) => `https://mill.example/${text}`);
const epc = fc.oneof(
  uri,
  fc
    .stringMatching(/^[A-Za-z0-9.-]{2,20}$/)
    .filter((serial) => serial !== "..")
    .map((serial) => `https://id.mill.example/01/09506000134352/21/${serial}`),
  fc.integer({ min: 1, max: 1e12 }).map((serial) => `urn:epc:id:sgtin:9506000.013435.${serial}`),
);
const extension = fc.oneof(
  fc.string({ unit: "grapheme" }).filter((text) => !text.includes("\0")),
  fc.double({ noNaN: true, noDefaultInfinity: true }).filter((n) => !Object.is(n, -0)),
  fc.boolean(),
  fc.array(fc.integer()),
);
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const anyEvent = fc
  .record({
    action: fc.constantFrom("OBSERVE", "ADD", "DELETE"),
    at: fc.date({ min: new Date("1990-01-01"), max: new Date("2090-01-01"), noInvalidDate: true }),
    offset: fc.constantFrom("+00:00", "-13:59", "+14:00", "+05:30"),
    epcList: fc.uniqueArray(epc, { minLength: 1, maxLength: 5 }),
    bizStep: optional(fc.oneof(word(cbv.bizStep), uri)),
    disposition: optional(fc.oneof(word(cbv.disposition), uri)),
    readPoint: optional(uri),
    quantityList: optional(
      fc.array(
        fc.record({
          epcClass: fc.constant("urn:epc:class:lgtin:9506000.013435.L1"),
          quantity: fc.double({ min: 0, max: 1e9, noNaN: true }),
        }),
        { maxLength: 3 },
      ),
    ),
    more: fc.dictionary(fc.stringMatching(/^mill:[a-zA-Z]{1,8}$/), extension, { maxKeys: 3 }),
  })
  .map(
    ({ at, offset, readPoint, more, ...rest }) =>
      JSON.parse(
        JSON.stringify({
          ...observed(rest),
          ...more,
          eventTime: at.toISOString(),
          eventTimeZoneOffset: offset,
          ...(readPoint ? { readPoint: { id: readPoint } } : {}),
        }),
      ) as Json,
  );
test("any valid event comes back unchanged, and by everything that it names", async () => {
  const { as } = await tenant();
  const context = { "@context": [CONTEXT, { mill: "https://mill.example/voc/" }] };
  await fc.assert(
    fc.asyncProperty(fc.array(anyEvent, { minLength: 1, maxLength: 5 }), async (events) => {
      expect(await job(as, await capture(as, document(events, context)))).toMatchObject({ errors: [] });
      for (const event of events) {
        const { recordTime, ...back } = (await ask(as, { EQ_eventID: event["eventID"] }))[0] as Json;
        expect([back, recordTime]).toEqual([event, expect.any(String)]);
        const query = {
          MATCH_epc: event["epcList"].join("|"),
          GE_eventTime: event["eventTime"],
          EQ_eventID: event["eventID"],
          EQ_action: event["action"],
        };
        expect(await ask(as, query)).toHaveLength(1);
      }
    }),
    { numRuns: 30 },
  );
});

test("inspecting a label of ours is verifying it: a scan is told of once, and of no one else's", async () => {
  const { as, id: tenantId } = await tenant();
  const stranger = await tenant();
  const gtin = "09506000134352";
  await w.store.write("a serial", async ({ db, now }) => {
    await db.insert(serials).values({ tenantId, serial: "777", gtin, productId: `p-${tenantId}`, n: 1, createdAt: now });
  });
  const labels = [
    `https://id.mill.example/01/${gtin}/21/777`,
    `https://id.mill.example/01/${gtin}/21/778`,
    "urn:epc:id:sgtin:9506000.013436.777",
  ];
  const event = observed({ bizStep: "inspecting", epcList: labels });
  await w.store.write("listen", async ({ db }) => {
    for (const of of [tenantId, stranger.id])
      await db.insert(subscriptions).values({ tenantId: of, type: "scan.recorded", webhookId: `w-${of}` });
  });
  const scans = async (of: string) =>
    (await w.store.read("events", async ({ db }) => db.select().from(outbox).orderBy(outbox.id)))
      .filter(({ type, tenantId }) => type === "scan.recorded" && tenantId === of)
      .map(({ body }) => JSON.parse(body));
  for (const client of [as, stranger.as, as]) await job(client, await capture(client, document([event])));
  expect((await scans(tenantId)).map(({ data }) => data)).toEqual([
    { gtin, serial: "777", at: "2026-11-21T08:59:58.123Z", source: "epcis", eventId: event["eventID"] },
  ]);
  expect(await scans(stranger.id)).toEqual([]);
  await capture(as, document([observed({ epcList: labels }), observed({ bizStep: "inspecting", action: "DELETE", epcList: labels })]));
  expect(await scans(tenantId)).toHaveLength(1);
  await as.post("/epcis/events", observed({ bizStep: "cbv:BizStep-inspecting", epcList: ["urn:epc:id:sgtin:9506000.013435.777"] }));
  expect(await scans(tenantId)).toHaveLength(2);
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
  await w.store.write("sealed again", (tx) => domain.commissioned(tx, id, { ...label, eventId: made }));
  expect(await ask(as, { EQ_bizStep: "commissioning" })).toHaveLength(1);
});
