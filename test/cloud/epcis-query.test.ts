// The EPCIS query language: each parameter finds just what it says, pages hold together, what isn't known is refused by name.
import { expect, onTestFinished, test } from "vitest";
import { eq, sql } from "../../cloud/store/drizzle.ts";
import { query } from "../../cloud/domain/epcis-query.ts";
import { epcisTerms } from "../../cloud/store/schema.ts";
import type { Store } from "../../cloud/store/store.ts";
import type { Answer } from "../../fixtures/client.ts";
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
  walk,
} from "../epcis.ts";
import { engine, world } from "../world.ts";

const w = await world();
const tenant = () => tenantOf(w);

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
  ["a step as EPCIS 1.2 has it", { EQ_bizStep: "urn:epcglobal:cbv:bizstep:packing" }, [u(2)]],
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
  ["an amount", { EQ_quantity: "12.5|99" }, [u(1)]],
  ["amounts from and to", { GT_quantity: "1.5", LE_quantity: "2", EQ_bizStep: "commissioning" }, [u(7)]],
  ["amounts in a unit", { GE_quantity_KGM: "1.5", LT_quantity_KGM: "12.5" }, [u(7)]],
  ["amounts in a unit that nothing has", { GE_quantity_LTR: "0" }, []],
  ["a reading", { EQ_value_CEL: "21.50", GE_minValue_CEL: "20", LE_maxValue_CEL: "23.25", LT_sDev_CEL: "1" }, [u(1), u(11)]],
  ["a reading in another unit", { EQ_value_FAH: "21.5" }, []],
  ["a rank", { GE_percRank: "50", LE_percRank: "50" }, [u(1), u(11)]],
  [
    "a reading that is a text, a yes, bytes, a URI",
    { EQ_stringValue: "matt|satin", EQ_booleanValue: "true", EQ_hexBinaryValue: "0aF9", EQ_uriValue: "https://mill.example/g/1" },
    [u(1), u(11)],
  ],
  ["a reading that is a no", { EQ_booleanValue: "false" }, []],
  ["readings of a time", { GE_time: "2026-11-20T09:15:30.5+01:00", LT_time: "2026-11-20T08:15:30.501Z" }, [u(1), u(11)]],
  ["raw data", { EQ_rawData: "https://mill.example/raw/1" }, [u(1), u(11)]],
  ["a field of one's own", { "EQ_mill:comment": "first of the day 🌅" }, [u(1)]],
  ["one by the URI of its name", { "EXISTS_https://mill.example/voc/comment": "", eventType: "ObjectEvent" }, [u(1)]],
  ["one as the query language writes it", { "EXISTS_https://mill.example/voc/#comment": "", eventType: "ObjectEvent" }, [u(1)]],
  ["one inside another, written so", { "EQ_ILMD_https://mill.example/voc/#colour": "red|blue" }, [u(7)]],
  ["one of a thing's beginning", { "EQ_ILMD_mill:colour": "red|blue" }, [u(7)]],
  ["one that is a day", { "GE_ILMD_mill:bestBefore": "2026-12-31T23:00:00Z", "LT_ILMD_mill:bestBefore": "2027-01-02" }, [u(1)]],
  ["one inside another", { "EXISTS_ILMD_mill:kiln": "", EQ_INNER_ILMD_no: "4", EQ_INNER_ILMD_names: "火" }, [u(1)]],
  ["one of a place", { "EQ_bizLocation_mill:hall": "B", EQ_action: "ADD", eventType: "ObjectEvent" }, [u(1)]],
  [
    "one of what senses",
    { "GE_SENSORMETADATA_mill:rack": "3", "EQ_SENSORREPORT_mill:probe": "north", EQ_SENSORREPORT_component: "x" },
    [u(1), u(11)],
  ],
  ["one that isn't there", { "EXISTS_mill:nothing": "" }, []],
  ["a time", { GE_eventTime: "2026-11-20T14:15:30.250+01:00", LT_eventTime: "2026-11-20T15:15:30.250Z" }, [u(13), u(14)]],
  ["a record's time", { LT_recordTime: "2026-01-01T00:00:00Z" }, []],
  ["quotes and percent signs", { EQ_readPoint: "%' OR 1=1 --" }, []],
];
test.each(asked)("a query for %s finds just that", async (_what, query, ids) => {
  expect(idsOf(await ask(all.as, query)).toSorted()).toEqual(ids.toSorted());
});

test("what only the events say is found page by page, however many have to be looked into, and counted as far as that goes", async () => {
  const { as } = await tenant();
  const at = (n: number) => new Date(Date.parse("2026-01-01T00:00:00Z") + n * 1000).toISOString();
  const meant = [7, 10_007, 20_500];
  const event = (n: number) =>
    observed({ eventID: u(n), eventTime: at(n), "shop:shelf": meant.includes(n) ? { "@value": n } : `shelf ${n}` });
  const context = { "@context": [CONTEXT, { shop: "https://shop.example/" }] };
  for (let n = 0; n < 21_000; n += 7_000)
    await job(
      as,
      await capture(
        as,
        document(
          Array.from({ length: 7_000 }, (_, i) => event(n + i)),
          context,
        ),
      ),
    );
  const query = { "GE_https://shop.example/shelf": "0", orderDirection: "ASC" };
  const pages = (more: Record<string, string>) => walk(w.url, as, new URLSearchParams({ ...query, ...more }).toString());
  expect(await pages({ perPage: "1" })).toEqual(meant.map((n) => [u(n)]));
  expect(await pages({ perPage: "2" })).toEqual([[u(7), u(10_007)], [u(20_500)]]);
  expect(await pages({ eventCountLimit: "2" })).toEqual([[u(7), u(10_007)]]);
  expect(await pages({ "EQ_shop:shelf": "none" })).toEqual([[], []]);
  const counted = (most: string, from: number) =>
    as.get(`/epcis/events?${new URLSearchParams({ ...query, maxEventCount: most, GE_eventTime: at(from) }).toString()}`);
  expect(idsOf(found(await counted("2", 2_000)))).toEqual([u(10_007), u(20_500)]);
  for (const [most, from, why] of [
    ["1", 2_000, "more than 1"],
    ["3", 0, "looked into"],
  ] as const) {
    const answer = await counted(most, from);
    expect(refusal(answer).slice(0, 2)).toEqual([413, "QUERY_TOO_LARGE"]);
    expect(answer.body.error.message).toContain(why);
  }
});

test("things, steps, places and types have events at addresses of their own, each id decoded once", async () => {
  const at = async (path: string, id: string) => idsOf(found(await all.as.get(`/epcis/${path}/${encodeURIComponent(id)}/events`)));
  expect(await at("epcs", "https://id.gs1.org/01/09506000134352/21/A%2F7")).toEqual([u(1)]);
  expect(await at("bizSteps", "packing")).toEqual([u(2)]);
  expect(await at("bizSteps", "urn:epcglobal:cbv:bizstep:packing")).toEqual([u(2)]); // as the standard's own example spells one
  expect(await at("dispositions", "https://mill.example/disposition/resting")).toEqual([u(15)]);
  expect(await at("readPoints", "https://mill.example/roller/1")).toEqual([u(13)]);
  expect((await at("bizLocations", "urn:epc:id:sgln:9506000.13437.0")).length).toBeGreaterThan(3);
  expect(await at("eventTypes", "mill:RollerEvent")).toEqual([u(13)]);
  expect(refusal(await all.as.get("/epcis/bizSteps/killing/events"))).toEqual([404, "NOT_FOUND", "epcisException:NoSuchResourceException"]);
  expect(found(await all.as.get(`/epcis/events/${encodeURIComponent(hash)}`))).toHaveLength(1);
});

test("a query behind such an address narrows it and replaces nothing; what it leaves nothing of is an empty answer", async () => {
  const shipped = async (query: string) => idsOf(found(await all.as.get(`/epcis/bizSteps/shipping/events?${query}`)));
  expect((await shipped("EQ_bizStep=shipping|packing")).toSorted()).toEqual([u(5), hash].toSorted());
  expect(await shipped("EQ_bizStep=packing")).toEqual([]);
  expect(await shipped("EQ_action=DELETE")).toEqual([]);
  const thing = encodeURIComponent("urn:epc:id:sgtin:9506000.013435.42");
  const both = await all.as.get(`/epcis/epcs/${thing}/events?MATCH_anyEPC=urn:epc:id:sgtin:9506000.013435.901`);
  expect(idsOf(found(both))).toEqual([]);
  expect(refusal(await all.as.get("/epcis/bizSteps/killing/events?EQ_bizStep=shipping"))[0]).toBe(404);
});

test("who asks for no more than so many events is told so where there are more, and in the document", async () => {
  const path = "/epcis/bizSteps/shipping/events";
  expect(refusal(await all.as.get(`${path}?maxEventCount=1`)).slice(0, 2)).toEqual([413, "QUERY_TOO_LARGE"]);
  const document = (await all.as.get("/openapi.json")).body;
  expect(document.paths["/api/v2/epcis/bizSteps/{bizStep}/events"].get.responses).toHaveProperty("413");
});

test("the document shows where an answer's events are", async () => {
  const { paths, components } = (await all.as.get("/openapi.json")).body;
  for (const path of ["/events", "/events/{eventID}", "/bizSteps/{bizStep}/events"])
    expect(paths[`/api/v2/epcis${path}`].get.responses[200].content["application/json"].schema.$ref).toBe(
      "#/components/schemas/EventAnswer",
    );
  const { queryResults } = components.schemas.EventAnswer.properties.epcisBody.properties;
  expect(queryResults.properties.resultsBody.properties.eventList).toMatchObject({ type: "array", items: { type: "object" } });
});

test("documents are told as JSON-LD to whoever accepts that rather than JSON", async () => {
  const typeOf = async (path: string, accept: string) => {
    const answer = await all.as.get(path, { headers: { accept } });
    expect(eventsOf(answer.body).length).toBeGreaterThan(0);
    return answer.headers.get("content-type");
  };
  for (const path of ["/epcis/events", `/epcis/events/${encodeURIComponent(u(1))}`, "/epcis/bizSteps/shipping/events"]) {
    expect(await typeOf(path, "application/ld+json")).toBe("application/ld+json");
    expect(await typeOf(path, "application/ld+json, */*;q=0.5")).toBe("application/ld+json");
    for (const accept of ["application/json", "*/*", "text/html", "application/ld+json;q=0.5, application/json"])
      expect(await typeOf(path, accept)).toBe("application/json; charset=utf-8");
  }
});

test("a list of capture jobs names the token that isn't its own", async () => {
  const { body } = await all.as.get("/epcis/capture?nextPageToken=abc");
  expect(body.error.details.fields).toMatchObject([{ field: "nextPageToken" }]);
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
  ["an amount that isn't one", { GE_quantity_KGM: "1|2" }, "GE_quantity_KGM"],
  ["a unit there can't be", { GE_quantity_kilo: "1" }, "GE_quantity_kilo"],
  ["an extension without a namespace", { EQ_ILMD_colour: "red" }, "EQ_ILMD_colour"],
  ["an order of what has none", { "GT_mill:comment": "abc" }, "GT_mill:comment"],
  ["an instant where an amount is asked for", { GE_quantity_KGM: "2026-11-21" }, "GE_quantity_KGM"],
  ["a number where an instant is asked for", { GE_time: "5" }, "GE_time"],
  ["a word where an amount is", { EQ_percRank: "5|high" }, "EQ_percRank"],
  ["a field of the standard's with something behind it", { "EQ_bizStep:x": "shipping" }, "EQ_bizStep:x"],
  ["a reading with something behind it", { "EQ_value_CEL:x": "1" }, "EQ_value_CEL:x"],
  [
    "one thing too many to look into events for",
    Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`EXISTS_mill:${n}`, ""])),
    "EXISTS_mill:10",
  ],
  ["what asks for master data", { HASATTR_bizLocation: "mill:hall" }, "HASATTR_bizLocation"],
  ["too many values", { EQ_eventID: Array.from({ length: 101 }, (_, n) => u(n)).join("|") }, "EQ_eventID"],
])("%s is refused by name", async (_what, query, field) => {
  const answer = await all.as.get(`/epcis/events?${new URLSearchParams(query).toString()}`);
  expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:QueryParameterException"]);
  expect(answer.body.error.details.fields).toMatchObject([{ field }]);
});

test.each([
  ["/epcis/events", []],
  ["/epcis/epcs/urn%3Aepc%3Aidpat%3Asgtin%3Abad/events", ["MATCH_anyEPC"]],
])("all that is wrong with a query of %s is named at once", async (path, inPath) => {
  const wrong = { EQ_colour: "red", EQ_action: "LOOK", perPage: "0", maxEventCount: "x", orderBy: "colour", nextPageToken: "abc" };
  const answer = await all.as.get(`${path}?${new URLSearchParams(wrong).toString()}`);
  expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:QueryParameterException"]);
  const fields: string[] = answer.body.error.details.fields.map(({ field }: Json) => field);
  expect(fields.toSorted()).toEqual([...Object.keys(wrong), ...inPath].toSorted());
  expect(answer.body.error.message.split("; ")).toHaveLength(fields.length);
});

test("pages hold together while events come in, in either order, by events and by what they name", async () => {
  const { as } = await tenant();
  const instant = (n: number) => new Date(Date.parse("2026-11-01T00:00:00Z") + Math.floor(n / 3) * 1000).toISOString();
  const many = Array.from({ length: 95 }, (_, n) => observed({ eventTime: instant(n) }));
  await job(as, await capture(as, document(many)));
  const later = () => capture(as, document([observed({ eventTime: "2026-11-20T00:00:00Z" })]));
  const newest = (await walk(w.url, as, "perPage=10", later)).flat();
  expect(newest.toSorted()).toEqual(idsOf(many).toSorted());
  const times = newest.map((id) => String(many.find((event) => event["eventID"] === id)?.["eventTime"]));
  expect(times).toEqual(times.toSorted().toReversed());
  const mine = "LT_eventTime=2026-11-02T00:00:00Z";
  expect((await walk(w.url, as, `${mine}&perPage=10&orderDirection=ASC`)).flat()).toEqual(newest.toReversed());
  expect((await walk(w.url, as, `${mine}&perPage=40&orderBy=recordTime`)).map((page) => page.length)).toEqual([40, 40, 15]);
  const epc = encodeURIComponent("urn:epc:id:sgtin:9506000.013435.42");
  expect((await walk(w.url, as, `${mine}&perPage=10&MATCH_epc=${epc}`)).flat()).toEqual(newest);
  expect((await walk(w.url, as, mine)).map((page) => page.length)).toEqual([30, 30, 30, 5]);
  expect((await walk(w.url, as, `${mine}&perPage=10&eventCountLimit=25`)).map((page) => page.length)).toEqual([10, 10, 5]);
  expect((await walk(w.url, as, `${mine}&maxEventCount=95`)).flat()).toHaveLength(95);
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

test.each([
  ["a document", () => ({})],
  ["a document, and an event of it again,", (context: unknown) => ({ "@context": [context] })],
])("two meanings that %s gives a prefix stay apart in one answer", async (_where, own) => {
  const { as } = await tenant();
  for (const x of ["https://a.example/", "https://b.example/"])
    await capture(as, document([observed({ ...own({ x }), "x:n": 1 })], { "@context": [CONTEXT, { x }] }));
  const meanings = ({ body }: Answer) => eventsOf(body).map((event): string => event["@context"]?.[0].x ?? body["@context"][1].x);
  const answer = await as.get("/epcis/events");
  expect(meanings(answer).toSorted()).toEqual(["https://a.example/", "https://b.example/"]);
  const { as: copy } = await tenant();
  expect(await job(copy, await capture(copy, answer.body))).toMatchObject({ success: true });
  expect(meanings(await copy.get("/epcis/events"))).toEqual(meanings(answer));
});

test("what a context elsewhere may declare, or one that says otherwise of the standard's own prefixes, holds for the events that came with it alone", async () => {
  const { as } = await tenant();
  const elsewhere = "https://a.example/context.jsonld";
  const sent = [
    [elsewhere, "shop"],
    [{ shop: "https://b.example/" }, "shop"],
    [{ gs1: "https://old.example/" }, "gs1"],
    [undefined, "gs1"],
  ] as const;
  const ids: string[] = [];
  for (const [context, prefix] of sent) {
    const event = observed({ [`${prefix}:n`]: 1 });
    ids.push(event["eventID"] as string);
    await job(as, await capture(as, document([event], { "@context": [CONTEXT, context].filter(Boolean) })));
  }
  const answer = await as.get("/epcis/events");
  /** What the last context that can have a say in it makes of the prefix. */
  const meant = eventsOf(answer.body).map((event) => {
    const [, prefix] = sent[ids.indexOf(event["eventID"])]!;
    const contexts = [answer.body["@context"], event["@context"] ?? []].flat() as (string | Json)[];
    return [
      event["eventID"],
      contexts.findLast((entry) => (typeof entry === "string" ? prefix === "shop" || entry === CONTEXT : prefix in entry)),
    ];
  });
  expect(Object.fromEntries(meant)).toEqual(Object.fromEntries(ids.map((id, n) => [id, sent[n]![0] ?? CONTEXT])));
  expect(await job(as, await capture(as, answer.body))).toMatchObject({ success: true, errors: [] }); // each is the same still
});

test("thousands of events are one job, and all are found", async () => {
  const { as } = await tenant();
  const many = Array.from({ length: 5_000 }, (_, n) => observed({ epcList: [`urn:epc:id:sgtin:9506000.013435.${n + 1}`] }));
  expect(await job(as, await capture(as, document(many)))).toMatchObject({ success: true });
  expect((await walk(w.url, as, "perPage=100000")).map((page) => page.length)).toEqual(Array(5).fill(1_000));
  const pattern = await walk(w.url, as, `perPage=1000&MATCH_epc=${encodeURIComponent("urn:epc:idpat:sgtin:9506000.013435.*")}`);
  expect(new Set(pattern.flat())).toEqual(new Set(idsOf(many)));
  expect((await walk(w.url, as, "MATCH_epc=urn:epc:idpat:sgtin:9506000.013435.*&EQ_bizStep=loading")).flat()).toEqual([]);
  expect(idsOf(await ask(as, { MATCH_epc: "urn:epc:id:sgtin:9506000.013435.4321" }))).toEqual([many[4320]?.["eventID"]]);
});

test("a page ends where it has bytes enough, and the next one goes on", async () => {
  const { as } = await tenant();
  const sent = Array.from({ length: 62 }, () => observed({ "urn:x:note": "x".repeat(1_000_000) }));
  for (const event of sent) await as.post("/epcis/events", event);
  const pages = await walk(w.url, as, "perPage=1000");
  expect(pages.map(({ length }) => length)).toEqual([36, 26]);
  expect(new Set(pages.flat())).toEqual(new Set(idsOf(sent)));
  expect(await walk(w.url, as, "perPage=1000&EXISTS_urn:x:note=")).toEqual(pages);
  expect(await walk(w.url, as, "perPage=1000&EXISTS_urn:x:nothing=")).toEqual([[], []]);
  expect(refusal(await as.get("/epcis/events?EXISTS_urn:x:note=&maxEventCount=61")).slice(0, 2)).toEqual([413, "QUERY_TOO_LARGE"]);
  expect(found(await as.get("/epcis/events?EXISTS_urn:x:note=&maxEventCount=62")).length).toBeGreaterThan(0);
});

test.each([
  ["urn:epc:idpat:sscc:9506000.*", ["urn:epc:id:sscc:9506000.0000000017"]],
  ["urn:epc:idpat:sscc:*.*", ["urn:epc:id:sscc:9506000.0000000017"]],
  ["urn:epc:idpat:sgln:9506000.*.*", ["urn:epc:id:sgln:9506000.13437.0", "urn:epc:id:sgln:9506000.13437.7"]],
  ["urn:epc:idpat:sgln:9506000.13437.*", ["urn:epc:id:sgln:9506000.13437.0", "urn:epc:id:sgln:9506000.13437.7"]],
  ["urn:epc:idpat:sgtin:9506000.013435.42", ["urn:epc:id:sgtin:9506000.013435.42"]],
  ["urn:epc:idpat:sgtin:9506000.013435.*", ["urn:epc:id:sgtin:9506000.013435.42", "urn:epc:id:sgtin:9506000.013435.43"]],
  ["urn:epc:idpat:sgtin:*.*.*", ["urn:epc:id:sgtin:9506000.013435.42", "urn:epc:id:sgtin:9506000.013435.43"]],
])("the pattern %s finds what it names and nothing else", async (pattern, expected) => {
  const { as } = await tenant();
  const things = [
    "urn:epc:id:sscc:9506000.0000000017",
    "urn:epc:id:sgln:9506000.13437.0",
    "urn:epc:id:sgln:9506000.13437.7",
    "urn:epc:id:sgtin:9506000.013435.42",
    "urn:epc:id:sgtin:9506000.013435.43",
  ];
  for (const epc of things) await as.post("/epcis/events", observed({ epcList: [epc] }));
  const events = found(await as.get(`/epcis/events?MATCH_epc=${encodeURIComponent(pattern)}`));
  expect(events.flatMap(({ epcList }) => epcList as string[]).toSorted()).toEqual(expected);
});

test.each([
  ["urn:epc:idpat:grai:9506000.12345.1", ["urn:epc:id:grai:9506000.12345.1"]],
  ["urn:epc:idpat:grai:9506000.12345.*", ["urn:epc:id:grai:9506000.12345.1", "urn:epc:id:grai:9506000.12345.12"]],
  [
    "urn:epc:idpat:grai:9506000.*.*",
    ["urn:epc:id:grai:9506000.12345.1", "urn:epc:id:grai:9506000.12345.12", "urn:epc:id:grai:9506000.1234.1"],
  ],
  ["urn:epc:idpat:giai:*.*", ["urn:epc:id:giai:9506000.A1"]],
])("the pattern %s, of names that nothing is made of, finds what it names and nothing else", async (pattern, expected) => {
  const { as } = await tenant();
  const things = [
    "urn:epc:id:grai:9506000.12345.1",
    "urn:epc:id:grai:9506000.12345.12",
    "urn:epc:id:grai:9506000.1234.1",
    "urn:epc:id:grai:950600.012345.1",
    "urn:epc:id:giai:9506000.A1",
  ];
  await job(as, await capture(as, document(things.map((epc) => observed({ epcList: [epc] })))));
  const events = await ask(as, { MATCH_epc: pattern });
  expect(events.flatMap(({ epcList }) => epcList as string[]).toSorted()).toEqual(expected.toSorted());
});

test("a star at the end stands for whatever follows on any resolver's host; one that is part of a serial is written %2A, as links have it", async () => {
  const { as } = await tenant();
  const link = (serial: string) => `https://mill.example/x/01/09506000134352/21/${serial}`;
  const things = [link("A%2A"), link("A1"), link("B1"), "https://mill.example/01/19506000134359/21/A1", "https://mill.example/part/1"];
  const events = things.map((epc) => observed({ epcList: [epc] }));
  await job(as, await capture(as, document(events)));
  const finds = async (pattern: string) =>
    (await ask(as, { MATCH_epc: pattern })).map(({ epcList }) => things.indexOf(epcList[0])).toSorted((a, b) => a - b);
  expect(await finds(link("A*"))).toEqual([0, 1]);
  expect(await finds(link("A%2A"))).toEqual([0]);
  expect(await finds(link("*"))).toEqual([0, 1, 2]);
  for (const host of ["https://id.gs1.org", "https://mill.example/x", "https://other.example"])
    for (const [pattern, found] of [
      ["/01/09506000134352/*", [0, 1, 2]],
      ["/01/0950600013*", [0, 1, 2]],
      ["/01/*", [0, 1, 2, 3]],
      ["/01/29*", []],
    ] as const)
      expect([host, pattern, await finds(host + pattern)]).toEqual([host, pattern, found]);
  expect(await finds("https://mill.example/part/*")).toEqual([4]);
  const at = await as.get(`/epcis/epcs/${encodeURIComponent(link("A%2A"))}/events`);
  expect(idsOf(found(at))).toEqual([events[0]?.["eventID"]]);
});

test.each(["grai:*.12345.1", "sgtin:bad", "sgtin:9506000.*.42", "sscc:x.*", "sgln:x.*.*"])(
  "a pattern that can't be read is refused: %s",
  async (pattern) => {
    const answer = await all.as.get(`/epcis/events?MATCH_epc=urn:epc:idpat:${pattern}`);
    expect(refusal(answer)).toEqual([400, "VALIDATION_ERROR", "epcisException:QueryParameterException"]);
  },
);

const [things, classes] = [(name: string): Json => ({ epcList: [name] }), (name: string): Json => ({ quantityList: [{ epcClass: name }] })];
test.each([
  ["MATCH_epc", "urn:epc:id:constructor:1.2.3", things],
  ["MATCH_epc", "https://mill.example/constructor/1", things],
  ["MATCH_epc", "https://mill.example/constructor/1/21/2", things],
  ["MATCH_epcClass", "urn:epc:idpat:constructor:1.2.3", classes],
  ["MATCH_epcClass", "urn:epc:constructor:is:1", classes],
  ["MATCH_epcClass", "urn:epc:constructor:create:1", classes],
])("%s finds %s alone, a name with a word of every object's in it", async (parameter, name, named) => {
  const { as } = await tenant();
  const [event, other] = [name, name.replace("mill", "other").replace(/\d$/, "9")].map((one) => observed(named(one)));
  await job(as, await capture(as, document([event, other])));
  expect(idsOf(await ask(as, { [parameter]: name }))).toEqual([event?.["eventID"]]);
});
test("a pattern of names of a scheme with such a word finds them", async () => {
  const { as } = await tenant();
  const event = observed({ epcList: ["urn:epc:id:constructor:1.2.3"] });
  await job(as, await capture(as, document([event, observed()])));
  expect(idsOf(await ask(as, { MATCH_epc: "urn:epc:idpat:constructor:1.2.*" }))).toEqual([event["eventID"]]);
});

test("a thing is the same whether or not a link names its lot and variant beside its serial", async () => {
  const { as } = await tenant();
  const names = [
    "urn:epc:id:sgtin:9506000.013435.42",
    ...["", "/10/L1", "/22/V/10/L2"].map((lot) => `https://mill.example/01/09506000134352${lot}/21/42`),
  ];
  const events = names.map((name) => observed({ epcList: [name] }));
  await job(as, await capture(as, document([...events, observed({ epcList: ["https://mill.example/01/09506000134352/10/L1/21/43"] })])));
  for (const name of names) expect([name, idsOf(await ask(as, { MATCH_epc: name })).toSorted()]).toEqual([name, idsOf(events).toSorted()]);
  expect(idsOf(await ask(as, { MATCH_epc: "urn:epc:idpat:sgtin:9506000.013435.*" }))).toHaveLength(5);
});
test("a thing that a version before kept by its whole link is found by that link", async () => {
  const { as, id } = await tenant();
  const name = "https://id.gs1.org/01/09506000134352/10/L1/21/42";
  const event = observed({ epcList: [name] });
  await job(as, await capture(as, document([event])));
  await w.store.write("as before", ({ db }) => db.update(epcisTerms).set({ value: name }).where(eq(epcisTerms.tenantId, id)));
  expect(idsOf(await ask(as, { MATCH_epc: name }))).toEqual([event["eventID"]]);
});

test("an answer says when its query began: what came while it was looked for isn't promised to be in it", async () => {
  const { as, id } = await tenant();
  await job(as, await capture(as, document([observed(), observed()])));
  const began = Date.parse("2030-01-01T00:00:00Z");
  let at = began;
  const slow: Store = { ...w.store, read: (label, work) => w.store.read(label, (tx) => work({ ...tx, now: (at += 1_000) - 1_000 })) };
  const { document: answer } = await query(slow, id, {});
  expect([answer["creationDate"], at > began + 1_000]).toEqual(["2030-01-01T00:00:00.000Z", true]);
});

// On SQLite test/rules/plans.test.ts reads the plans.
test.runIf(engine === "postgres")(
  "what events say is read event by event, also where the server hasn't looked into the table yet",
  async () => {
    const own = await world({}, onTestFinished);
    const { id } = await tenantOf(own);
    await own.store.write("many events", async ({ db }) => {
      await db.run(sql`INSERT INTO epcis_events (tenant_id, event_id, type, event_time, record_time, body)
      SELECT ${id}, 'e' || n, 'ObjectEvent', n, n, '{"type":"ObjectEvent","eventID":"e' || n || '"}' FROM generate_series(1, 100000) n`);
    });
    const took: number[] = [];
    const read: Store["read"] = async (label, work) => {
      const began = performance.now();
      const said = await own.store.read(label, work);
      took.push(performance.now() - began);
      return said;
    };
    expect((await query({ ...own.store, read }, id, { "EQ_urn:x:nothing": "1" })).found).toBe(0);
    const each = Math.min(...took); // the quickest: a machine that has others to serve makes any of them slow
    took.length = 0;
    for (let n = 0; n < 9; n += 1)
      await read("all", ({ db }) => db.values(sql`SELECT count(*) FROM epcis_events WHERE tenant_id = ${id} AND event_id <> ''`));
    expect(each).toBeLessThan(Math.min(...took) / 2); // it went through all of them for each page
  },
);
