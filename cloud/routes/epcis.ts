// EPCIS 2.0 over HTTP, as the standard's REST binding has it: hand events in, follow the job, ask for events by what they say.
import { Type } from "typebox";
import { API } from "#shared/api.ts";
import { limits } from "#shared/limits.ts";
import { closed, IdParams } from "#shared/wire/common.ts";
import {
  behaviours,
  type Behaviour,
  Captured,
  CaptureJob,
  EventAnswer,
  EventKept,
  eventQuery,
  JobQuery,
  OneEvent,
} from "#shared/wire/epcis.ts";
import * as domain from "../domain/epcis.ts";
import { LIMIT_HEADERS, prepare } from "../domain/epcis-document.ts";
import { parameterNames, queryFaults } from "../domain/epcis-parameters.ts";
import { absent, byId, CONTEXT, query as find } from "../domain/epcis-query.ts";
import { mediaWanted } from "../accept.ts";
import { type Asked, type Reply, type Route, routesUnder } from "../route.ts";

const { read, serve, write } = routesUnder("epcis");
const scope = ["epcis:capture"] as const;
const VERSIONS = { "gs1-epcis-version": "2.0.0", "gs1-cbv-version": "2.0.0" };
const SPOKEN = ["GS1-EPCIS-Version", "GS1-CBV-Version"] as const;
const FORMAT = { ...VERSIONS, "gs1-epc-format": "Never_Translates" };
const BEHAVIOUR = "GS1-Capture-Error-Behaviour";
const exceptions = (invalid: string): Record<number, string> => ({
  400: `epcisException:${invalid}`,
  401: "epcisException:SecurityException",
  403: "epcisException:SecurityException",
  404: "epcisException:NoSuchResourceException",
  413: "epcisException:CaptureLimitExceededException",
  414: "epcisException:URITooLongException",
  500: "epcisException:ImplementationException",
});
const captures = {
  scope,
  standard: {
    exceptions: exceptions("ValidationException"),
    limits: LIMIT_HEADERS,
    discovery: { ...VERSIONS, ...LIMIT_HEADERS, [BEHAVIOUR.toLowerCase()]: "all" }, // the standard's word for both of them
  },
};
const queries = { scope, standard: { exceptions: exceptions("QueryParameterException"), limits: {}, discovery: FORMAT } };
const JSON_LD = "application/ld+json";
const taking = { ...captures, takesJsonAs: [JSON_LD], bodyMaxBytes: limits.EPCIS_BODY_MAX_BYTES, judgesBody: true };

const inspecting = {
  "@context": [CONTEXT],
  type: "ObjectEvent",
  eventID: "urn:uuid:6f0c0e0a-3a53-4f6e-9d0e-5f3f5f0c2f11",
  eventTime: "2026-11-21T08:59:58.123+00:00",
  eventTimeZoneOffset: "+00:00",
  action: "OBSERVE",
  bizStep: "inspecting",
  disposition: "conformant",
  epcList: ["https://id.example.org/01/09506000134352/21/123456789"],
  readPoint: { id: "https://id.example.org/414/9506000134376/254/gate-07" },
};
const { "@context": context, ...event } = inspecting;
const document = {
  "@context": context,
  type: "EPCISDocument",
  schemaVersion: "2.0",
  creationDate: "2026-11-21T09:00:00Z",
  epcisBody: { eventList: [event] },
};

/** The next page's address: this one's, with the token. */
const linkTo = (origin: string, path: string, query: object, token: string | null): Record<string, string> => {
  if (token === null) return {};
  const search = new URLSearchParams({ ...query, nextPageToken: token }).toString();
  return { link: `<${origin}${API}${path}?${search}>; rel="next"` };
};

const documents = { headers: { vary: "Accept" }, replies: { 200: ["application/json", JSON_LD] }, jsonShape: EventAnswer };
const answer = (body: object, { headers: { accept } }: Asked, more: Record<string, string> = {}): Reply => ({
  status: 200,
  body,
  headers: { ...FORMAT, ...(mediaWanted(accept, ["application/json", JSON_LD]) === JSON_LD && { "content-type": JSON_LD }), ...more },
});
const EventQuery = eventQuery(parameterNames);

/** What events can be found under by a path of its own, and the parameter that it stands for. */
const TOP_LEVEL = [
  ["epcs", "epc", "MATCH_anyEPC", "that name a thing"],
  ["eventTypes", "eventType", "eventType", "of a type"],
  ["bizSteps", "bizStep", "EQ_bizStep", "of a business step"],
  ["dispositions", "disposition", "EQ_disposition", "that leave things in a disposition"],
  ["readPoints", "readPoint", "EQ_readPoint", "seen at a read point"],
  ["bizLocations", "bizLocation", "EQ_bizLocation", "at a business location"],
] as const;
const topLevel = TOP_LEVEL.map(([collection, name, parameter, says]) =>
  serve({
    ...queries,
    judge: (query, _found, params) => [...queryFaults({ [parameter]: (params as Record<string, string>)[name] }), ...queryFaults(query)],
    path: `/epcis/${collection}/{${name}}/events`,
    says: `The events ${says}; percent-encode it in the path`,
    params: Type.Object({ [name]: Type.String({ minLength: 1 }) }),
    query: EventQuery,
    ...documents,
    sends: [...SPOKEN, "GS1-EPC-Format"],
    maySend: ["Link"],
    refusals: ["QUERY_TOO_LARGE"],
    run: async ({ caller, params, query, asked, deps }) => {
      const value = String((params as Record<string, string>)[name]);
      const under = { [parameter]: value };
      const { document, next, found } = await find(deps.store, caller.tenantId, query, under);
      if (found === 0 && (await find(deps.store, caller.tenantId, { perPage: 1 }, under)).found === 0)
        throw absent(`no event of this tenant has the ${name} ${value.slice(0, limits.EPCIS_KEY_MAX_LENGTH)}`);
      return answer(document, asked, linkTo(deps.origin(), `/epcis/${collection}/${encodeURIComponent(value)}/events`, query, next));
    },
  }),
);

export const epcis: Route[] = [
  write({
    ...taking,
    method: "POST",
    path: "/epcis/capture",
    says: "Capture EPCIS 2.0 events: a document, a query's answer or one event. Inspecting a label of ours is verifying it",
    body: Captured,
    example: document,
    takesHeaders: {
      [BEHAVIOUR]: { says: "rollback: all events or none. proceed: all that can be captured, the job tells the others", oneOf: behaviours },
    },
    replies: { 202: CaptureJob },
    sends: ["Location", ...SPOKEN, BEHAVIOUR],
    refusals: ["CAPTURE_TOO_LARGE"],
    audit: "product.events_captured",
    prepare: async ({ body, asked, bytes: sent }) =>
      prepare(body, (asked.headers[BEHAVIOUR.toLowerCase()] ?? "rollback") as Behaviour, { bare: false, sent }),
    run: async ({ tx, by, prepared }) => {
      const { behaviour } = prepared;
      const { job, stored, failed } = await domain.capture(tx, by, prepared);
      return {
        status: 202,
        body: job,
        headers: { ...VERSIONS, [BEHAVIOUR.toLowerCase()]: behaviour, location: `${API}/epcis/capture/${job.captureID}` },
        about: { subject: job.captureID, details: { behaviour, stored, failed } },
      };
    },
  }),
  read({
    ...captures,
    path: "/epcis/capture",
    says: "The tenant's capture jobs, newest first",
    query: JobQuery,
    replies: { 200: Type.Array(CaptureJob) },
    sends: SPOKEN,
    maySend: ["Link"],
    run: async ({ tx, caller, query, deps }) => {
      const { data, nextCursor } = await domain.jobs(tx, caller, query);
      return { status: 200, body: data, headers: { ...VERSIONS, ...linkTo(deps.origin(), "/epcis/capture", query, nextCursor) } };
    },
  }),
  read({
    ...captures,
    path: "/epcis/capture/{id}",
    says: "One capture job: whether all its events were captured, and what was wrong with those that weren't",
    params: IdParams,
    replies: { 200: CaptureJob },
    sends: SPOKEN,
    run: async ({ tx, caller, params }) => ({ status: 200, body: await domain.job(tx, caller, params.id), headers: VERSIONS }),
  }),
  write({
    ...taking,
    method: "POST",
    path: "/epcis/events",
    says: "Capture one event, at once",
    body: OneEvent,
    example: inspecting,
    replies: { 201: EventKept },
    sends: ["Location", ...SPOKEN],
    refusals: ["EVENT_EXISTS", "CAPTURE_TOO_LARGE"],
    audit: "product.events_captured",
    prepare: async ({ body, bytes: sent }) => prepare(body, "rollback", { bare: true, sent }),
    run: async ({ tx, by, prepared }) => {
      const { event, stored } = await domain.captureOne(tx, by, prepared);
      const { eventID: id } = event;
      return {
        status: 201,
        body: event,
        headers: { ...VERSIONS, location: `${API}/epcis/events/${encodeURIComponent(id)}` },
        about: { subject: id, details: { stored, failed: 0 } },
      };
    },
  }),
  serve({
    ...queries,
    judge: queryFaults,
    path: "/epcis/events",
    says: "Events by the parameters of the EPCIS query language (SimpleEventQuery); EQ_bizTransaction_, EQ_source_ and EQ_destination_ take a type behind them, GE_quantity_ and GE_value_ a unit, EQ_ILMD_ and EXISTS_ an extension's name",
    query: EventQuery,
    ...documents,
    sends: [...SPOKEN, "GS1-EPC-Format"],
    maySend: ["Link"],
    refusals: ["QUERY_TOO_LARGE"],
    run: async ({ caller, query, asked, deps }) => {
      const { document, next } = await find(deps.store, caller.tenantId, query);
      return answer(document, asked, linkTo(deps.origin(), "/epcis/events", query, next));
    },
  }),
  serve({
    ...queries,
    path: "/epcis/events/{eventID}",
    says: "One event by its id, percent-encoded in the path",
    params: closed({ eventID: Type.String({ minLength: 1 }) }),
    ...documents,
    sends: [...SPOKEN, "GS1-EPC-Format"],
    run: async ({ caller, params, asked, deps }) => answer(await byId(deps.store, caller.tenantId, params.eventID), asked),
  }),
  ...topLevel,
];
