// What EPCIS 2.0 takes is taken and comes back as it was; what it refuses is refused by name, however hostile.
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { cbv } from "#shared/cbv.ts";
import { limits } from "#shared/limits.ts";
import { contentOf } from "../../cloud/domain/epcis-rules.ts";
import {
  ask,
  capture,
  CONTEXT,
  document,
  eventsOf,
  fixture,
  found,
  idsOf,
  job,
  type Json,
  names,
  observed,
  refusal,
  tenantOf,
} from "../epcis.ts";
import { world } from "../world.ts";

const w = await world();
const tenant = () => tenantOf(w);
/** One that never captures anything, however often it tries. */
const { as: spotless } = await tenant();

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
  ["whose URLs are URLs", "object", "@context", (_e, sent) => (sent["@context"] = [CONTEXT, "https://mill.example/a b"])],
  ["each once", "object", "@context", (_e, sent) => (sent["@context"] = [CONTEXT, CONTEXT])],
  ["an event's own context likewise", "object", "epcisBody.eventList.0.@context", (event) => (event["@context"] = [CONTEXT, CONTEXT])],
  ["a document's version is 2", "object", "schemaVersion", (_e, sent) => (sent["schemaVersion"] = "1.2")],
  ["a document says when it was made", "object", "creationDate", (_e, sent) => delete sent["creationDate"]],
  ["a document has a body", "object", "epcisBody", (_e, sent) => delete sent["epcisBody"]],
  ["a document has no fields of its own without a namespace", "object", "comment", (_e, sent) => (sent["comment"] = "x")],
  ["a body has events, by their name", "object", "epcisBody.event", (_e, sent) => (sent["epcisBody"] = { eventlist: [] })],
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
  const sent = fixture(file);
  change(eventsOf(sent)[0] as Json, sent);
  const answer = await capture(spotless, sent);
  expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:ValidationException"]);
  const fields = answer.body.error.details.fields.map((fault: Json) => fault["field"]);
  expect(fields).toContainEqual(expect.stringMatching(new RegExp(`(^|\\.0\\.|^)${RegExp.escape(field)}$`)));
  expect(answer.body.error.message.split("; ")).toHaveLength(fields.length); // what joins them stands in none of them
  expect(await ask(spotless, {})).toEqual([]);
});

const ill = () => observed({ action: "add", "shop:shelf": 1 });
test.each<[string, () => Json, string[]]>([
  [
    "a document",
    () => ({ ...document([observed(), ill()], { "@context": [CONTEXT, CONTEXT], schemaVersion: "1.2" }), creationDate: undefined }),
    ["@context", "creationDate", "epcisBody.eventList.1.action", "schemaVersion"],
  ],
  [
    "a document whose context is right",
    () => document([ill()], { schemaVersion: "1.2" }),
    ["epcisBody.eventList.0.action", "epcisBody.eventList.0.shop:shelf", "schemaVersion"],
  ],
  [
    "one with a single event",
    () => document([], { comment: "x", epcisBody: { event: ill() } }),
    ["comment", "epcisBody.event.action", "epcisBody.event.shop:shelf"],
  ],
  [
    "one with a list and an event",
    () => document([], { epcisBody: { eventList: [ill()], event: observed() } }),
    ["epcisBody.event", "epcisBody.eventList.0.action", "epcisBody.eventList.0.shop:shelf"],
  ],
  ["one with neither", () => document([], { comment: "x", epcisBody: {} }), ["comment", "epcisBody"]],
  [
    "a query's answer",
    () => ({ ...document([], { epcisBody: { queryResults: { resultsBody: { eventList: [ill()] } } } }), type: "EPCISQueryDocument" }),
    [
      "epcisBody.queryResults.queryName",
      "epcisBody.queryResults.resultsBody.eventList.0.action",
      "epcisBody.queryResults.resultsBody.eventList.0.shop:shelf",
    ],
  ],
])("what is wrong around the events and in them is told at once: %s", async (_what, sent, fields) => {
  for (const behaviour of ["rollback", "proceed"]) {
    const answer = await capture(spotless, sent(), { "gs1-capture-error-behaviour": behaviour });
    expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:ValidationException"]);
    expect(answer.body.error.details.fields.map((fault: Json) => fault["field"]).toSorted()).toEqual(fields);
  }
  expect(await ask(spotless, {})).toEqual([]);
});

const nested = (levels: number): unknown => (levels === 0 ? 1 : { "mill:x": nested(levels - 1) });
test.each([
  ["a prototype's key", () => `{"type":"ObjectEvent","__proto__":{"action":"ADD"}}`],
  ["a prototype's key deep inside", () => JSON.stringify(observed({ "urn:x:y": { constructor: {} } }))],
  ["deep nesting", () => JSON.stringify(observed({ "urn:x:y": nested(50) }))],
  ["very deep nesting", () => `{"type":"ObjectEvent","urn:x:y":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
  ["a deep context", () => JSON.stringify(document([observed()], { "@context": [CONTEXT, { x: nested(50) }] }))],
  [
    "a very deep context",
    () =>
      JSON.stringify(document([], { "@context": 0 })).replace(
        `"@context":0`,
        `"@context":{"x":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
      ),
  ],
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
  const answer = await spotless.send("POST", "/epcis/capture", { body: body(), headers: { "content-type": "application/json" } });
  expect([answer.status, answer.body.error.code]).toEqual([400, "VALIDATION_ERROR"]);
  expect(answer.body.error.details.fields.length).toBeLessThanOrEqual(limits.FAULTS_MAX_ITEMS);
  expect((await spotless.get("/epcis/events")).status).toBe(200);
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

/** Letters in such an order that no database makes them shorter. */
const long = (length: number, from: number, letters: number) =>
  Array.from({ length }, (_, n) => String.fromCodePoint(from + ((Math.imul(n + 1, 2_654_435_761) >>> 13) % letters))).join("");
test.each([
  ["place", { readPoint: { id: `urn:x:${long(20_000, 0x61, 26)}` } }],
  ["step", { bizStep: `urn:x:${long(20_000, 0x61, 26)}` }],
  ["action", { action: long(20_000, 0x61, 26) }],
])("an event of a type of one's own may have a long %s", async (_what, more) => {
  const { as } = await tenant();
  const event = observed({ type: "urn:x:y", ...more });
  await job(as, await capture(as, document([event])));
  expect(idsOf(await ask(as, { EQ_eventID: event["eventID"] }))).toEqual([event["eventID"]]);
});
test("the longest words of one's own are found, and a word that is no URI is refused", async () => {
  const { as } = await tenant();
  const word = () => `urn:x:${long(limits.EPCIS_KEY_MAX_LENGTH - 6, 0x61, 26)}`;
  const event = observed({
    type: word(),
    eventID: word(),
    action: word(),
    bizStep: word(),
    disposition: word(),
    readPoint: { id: word() },
  });
  await job(as, await capture(as, document([event])));
  expect(idsOf(await ask(as, { EQ_bizStep: word(), EQ_disposition: word(), EQ_readPoint: word() }))).toEqual([event["eventID"]]);
  const foreign = `urn:x:${long(500, 0x20000, 0xa000)}`;
  const answer = await capture(as, document([observed({ bizStep: foreign, disposition: foreign })]));
  expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:ValidationException"]);
});

test("whole numbers of more digits than a number keeps are refused in extensions by their place: others would be kept, and told, as what was sent", async () => {
  const { as } = await tenant();
  const context = [CONTEXT, { ex: "https://ex.example/" }];
  const send = (body: string, path = "/epcis/capture", headers: Record<string, string> = {}) =>
    as.send("POST", path, { body, headers: { "content-type": "application/json", ...headers } });
  const sent = (more: Json) => JSON.stringify(document([observed(), observed({ action: "ADD", ...more })], { "@context": context }));
  const at = "epcisBody.eventList.1.";
  const long = ["106141412345678908", "-9007199254740993", "10000000000000001", "123456789012345678901", "1234567890123456789012345"];
  for (const number of long) {
    const refused = await send(sent({ ilmd: { "ex:lot": { parts: [1, { sscc: "#" }] } } }).replace('"#"', number));
    expect([...refusal(refused), refused.body.error.details.fields[0]]).toEqual([
      400,
      "VALIDATION_ERROR",
      "epcisException:ValidationException",
      { field: `${at}ilmd.ex:lot.parts.1.sscc`, rule: "number", message: "has more digits than a number keeps: send it as a text" },
    ]);
  }
  const all = sent({ "ex:a": "#", bizStep: "walking", readPoint: { id: "urn:x:y", "ex:b": "#" } }).replaceAll('"#"', "12345678901234567");
  const fields = (await send(all)).body.error.details.fields.map(({ field }: Json) => field).toSorted();
  expect(fields).toEqual([`${at}bizStep`, `${at}ex:a`, `${at}readPoint.ex:b`]);
  const own = JSON.stringify(observed({ type: "urn:x:y", "@context": context, mine: { n: "#" } })).replace('"#"', "9007199254740993");
  expect((await send(own, "/epcis/events")).body.error.details.fields[0].field).toBe("mine.n");
  const one = await job(as, await send(all, "/epcis/capture", { "gs1-capture-error-behaviour": "proceed" }));
  expect([one["success"], await ask(as, {})]).toEqual([false, [expect.objectContaining({ bizStep: "holding" })]]);
});

test("an event that has as many faults as are told, and behind them what is nested without end, is refused as others are", async () => {
  const { as } = await tenant();
  const wrong = Array.from({ length: limits.FAULTS_MAX_ITEMS }, () => "1e400").join();
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  const body = JSON.stringify(document([observed({ "@context": { ex: "https://ex.example/" }, "ex:a": "#", "ex:b": "##" })]))
    .replace('"#"', `[${wrong}]`)
    .replace('"##"', deep);
  const answer = await as.send("POST", "/epcis/capture", { body, headers: { "content-type": "application/json" } });
  expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:ValidationException"]);
});

test("numbers that are told as they were sent are taken, however long; so are measurements, for which the standard has no text", async () => {
  const { as } = await tenant();
  const kept = [9_007_199_254_740_991, 1e16, 1.5e19, 1.2345678901234567e19, 1e21, 6.02e23, 0.1, 12_345_678_901_234.5];
  const sensed = { sensorReport: [{ type: "Count", value: "#" }] };
  const event = observed({
    "@context": [CONTEXT, { ex: "https://ex.example/" }],
    "ex:kept": "#",
    "ex:name": "106141412345678908",
    sensorElementList: [sensed],
  });
  const body = JSON.stringify(event)
    .replace('"#"', JSON.stringify(kept).replace("15000000000000000000", "1.5e19").replace("1e+21", "1000000000000000000000"))
    .replace('"#"', "98765432109876543210");
  const answer = await as.send("POST", "/epcis/events", { body, headers: { "content-type": "application/json" } });
  expect([answer.status, answer.body["ex:kept"], answer.body["ex:name"]]).toEqual([201, kept, "106141412345678908"]);
});

test("what an event says is told in one walk, however many prefixes stand around it", () => {
  const event = { type: "ObjectEvent", "ex:marks": Array.from({ length: 200_000 }, () => "") };
  const context = (count: number) => [Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, "https://ex.example/"]))];
  const took = (count: number) => {
    const began = performance.now();
    contentOf(event, context(count));
    return performance.now() - began;
  };
  const one = Math.max(took(1), took(1));
  expect(took(1_500)).toBeLessThan(10 * one); // a context has room for them; looked for one by one, they took a hundred times as long
});
