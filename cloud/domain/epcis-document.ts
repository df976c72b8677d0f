// From a body to events ready to be stored: outside of any unit of work, a slice at a time, so that a large document holds nobody up.
import { randomUUID } from "node:crypto";
import { setImmediate as turn } from "node:timers/promises";
import { brief, type FieldFault, invalid, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { isObject } from "#shared/object.ts";
import { type Behaviour, EpcisDocument, EpcisQueryDocument, type Problem } from "#shared/wire/epcis.ts";
import { judgeOf } from "../validate.ts";
import { misreadRowsIn } from "./epcis-digits.ts";
import { contextFault, eventFaults, extrasOf, isUnfathomed, type Json, type LongNumber, prefixesOf } from "./epcis-rules.ts";
import { declaredAs, isDeclared, termsOf, type Term } from "./epcis-terms.ts";
import { TOO_MANY_DIGITS } from "./misread.ts";

/** `key` is what the store holds it under. */
export type Ready = { eventId: string; key: string; event: Json; terms: Term[] };
export type Prepared = {
  behaviour: Behaviour;
  context: unknown[] | null;
  events: Ready[];
  /** How many others there were, and what is wrong with them, as far as a job keeps that. */
  unfit: number;
  problems: Problem[];
};

/** What is judged before others get a turn. */
const [SLICE_EVENTS, SLICE_BYTES] = [200, 262_144];
const EXCEPTION = "epcisException:ValidationException";
const documentShape = judgeOf(EpcisDocument);
const queryShape = judgeOf(EpcisQueryDocument);

/** The limits as the standard's headers tell them. */
export const LIMIT_HEADERS = {
  "gs1-epcis-capture-limit": String(limits.EPCIS_CAPTURE_MAX_EVENTS),
  "gs1-epcis-capture-file-size-limit": String(limits.EPCIS_BODY_MAX_BYTES),
};
const tooLarge = (message: string) =>
  new Refusal("CAPTURE_TOO_LARGE", message, { epcisType: "epcisException:CaptureLimitExceededException" }, LIMIT_HEADERS);

function refused(faults: FieldFault[]): Refusal {
  const firsts = [...new Map(faults.toReversed().map((fault) => [fault.field, fault])).values()].toReversed();
  const { message } = invalid(firsts.slice(0, limits.FAULTS_MAX_ITEMS));
  return new Refusal("VALIDATION_ERROR", message, { epcisType: EXCEPTION, fields: firsts.slice(0, limits.FAULTS_MAX_ITEMS) });
}

/** `outer`: what is wrong around the events. */
type Found = { path: string; events: unknown[]; context: unknown; outer: FieldFault[] };

/** The events of whatever was sent, each list with the path that its faults are told by. */
function eventsIn(body: Json): Found {
  const { type, "@context": context } = body;
  if (type !== "EPCISDocument" && type !== "EPCISQueryDocument") return { path: "", events: [body], context: undefined, outer: [] };
  const outer = (type === "EPCISDocument" ? documentShape : queryShape)(withoutEvents(body));
  if (isUnfathomed(outer)) throw refused(outer);
  const fault = context === undefined ? undefined : contextFault(context);
  if (fault) outer.push({ field: "@context", rule: "context", message: fault });
  const inner = objectIn(body, "epcisBody");
  if (type === "EPCISQueryDocument") {
    const { eventList } = objectIn(objectIn(inner, "queryResults"), "resultsBody");
    return { path: "epcisBody.queryResults.resultsBody.eventList.", events: listed(eventList), context, outer };
  }
  const { eventList, event } = inner;
  if (eventList !== undefined && event !== undefined)
    outer.push({ field: "epcisBody.event", rule: "one", message: "can't stand beside eventList: put it in the list" });
  if (eventList !== undefined) return { path: "epcisBody.eventList.", events: listed(eventList), context, outer };
  return { path: "epcisBody.event", events: event === undefined && outer.length > 0 ? [] : [event], context, outer };
}
const objectIn = (value: Json, field: string): Json => (isObject(value[field]) ? value[field] : {});
const listed = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

/** The document around its events: they are judged one by one, and the shell at once. */
function withoutEvents(body: Json): Json {
  const emptied = (value: unknown): unknown => (Array.isArray(value) ? [] : value);
  const inner = body["epcisBody"] as Json | undefined | null;
  const results = inner?.["queryResults"] as Json | undefined | null;
  const list = results?.["resultsBody"] as Json | undefined | null;
  if (list?.["eventList"] !== undefined && results)
    return {
      ...body,
      epcisBody: { ...inner, queryResults: { ...results, resultsBody: { ...list, eventList: emptied(list["eventList"]) } } },
    };
  if (inner?.["eventList"] === undefined && inner?.["event"] === undefined) return body;
  const { eventList, event } = inner;
  return {
    ...body,
    epcisBody: {
      ...inner,
      ...(eventList === undefined ? {} : { eventList: emptied(eventList) }),
      ...(event === undefined ? {} : { event: asShell(event) }),
    },
  };
}
const asShell = (event: unknown): unknown => (isObject(event) ? {} : event);

type Sent = { bare: boolean; sent: Buffer };
/** Judges everything; with `proceed` what is wrong with an event is its own, as long as there is another that is right. */
export async function prepare(body: unknown, behaviour: Behaviour, { bare, sent }: Sent): Promise<Prepared> {
  if (!isObject(body)) throw refused([{ field: "body", rule: "type", message: "must be an EPCISDocument or an event, a JSON object" }]);
  const type = body["type"];
  if (bare && (type === "EPCISDocument" || type === "EPCISQueryDocument"))
    throw refused([{ field: "type", rule: "bare", message: "must be an event's: whole documents go to POST /epcis/capture" }]);
  const found = eventsIn(body);
  refuseMany(found);
  const isAllOrNone = behaviour === "rollback" || found.outer.length > 0;
  const { made, faults } = await judgeEach(found, behaviour, isAllOrNone, sent);
  if (faults.length > 0 && (isAllOrNone || made.events.length === 0)) throw refused(faults);
  return made;
}

function refuseMany({ events, outer }: Found): void {
  if (events.length <= limits.EPCIS_CAPTURE_MAX_EVENTS) return;
  if (outer.length > 0) throw refused(outer);
  throw tooLarge(`${events.length} events are more than the ${limits.EPCIS_CAPTURE_MAX_EVENTS} that one capture takes: split it`);
}

/** All of a document that is fit; of another, or where one fault spoils all, as much as is told of it. */
async function judgeEach(
  { path, events, context, outer }: Found,
  behaviour: Behaviour,
  isAllOrNone: boolean,
  sent: Buffer,
): Promise<{ made: Prepared; faults: FieldFault[] }> {
  const extras = extrasOf(context);
  const declared = outer.some(({ field }) => field.startsWith("@context")) ? undefined : prefixesOf(context);
  const made: Prepared = { behaviour, context: extras.length > 0 ? extras : null, events: [], unfit: 0, problems: [] };
  const faults = [...outer];
  const misread = misreadOf(sent);
  const slice = Math.max(1, Math.min(SLICE_EVENTS, Math.floor((events.length * SLICE_BYTES) / sent.length)));
  let keys = 0;
  for (const [i, event] of events.entries()) {
    if (i % slice === slice - 1) await turn();
    const at = path.endsWith(".") ? `${path}${i}` : path;
    const long: LongNumber[] = [];
    const wrong = eventFaults(event, declared, at, long);
    if (long.length > 0) wrong.push(...(await misread(long)));
    if (wrong.length > 0) note(made, wrong);
    else {
      const fit = ready(event as Json);
      made.events.push(fit);
      keys += fit.terms.length;
    }
    if (outer.length === 0 && keys > limits.EPCIS_CAPTURE_MAX_KEYS)
      throw tooLarge(`more than ${limits.EPCIS_CAPTURE_MAX_KEYS} EPCs and other keys: split it`);
    if (faults.length <= limits.FAULTS_MAX_ITEMS) faults.push(...wrong);
    if (faults.length > limits.FAULTS_MAX_ITEMS && isAllOrNone) break;
  }
  return { made, faults };
}

function note(made: Prepared, wrong: FieldFault[]): void {
  made.unfit += 1;
  if (made.behaviour === "proceed" && made.problems.length < limits.EPCIS_ERRORS_MAX_ITEMS)
    made.problems.push(problemOf(brief(refused(wrong).message)));
}

/** What is wrong with numbers that may have been read as others; the text is looked through once, and only where there are any. */
function misreadOf(sent: Buffer): (numbers: readonly LongNumber[]) => Promise<FieldFault[]> {
  let misread: Promise<ReadonlySet<number>> | undefined;
  return async (numbers) => {
    const others = await (misread ??= misreadRowsIn(sent));
    return numbers.flatMap(({ field, number }) =>
      others.has(Math.abs(number)) ? { field, rule: "number", message: TOO_MANY_DIGITS } : [],
    );
  };
}

export const problemOf = (detail: string, type = EXCEPTION, title = "The event isn't valid", status = 400): Problem => ({
  type,
  title,
  status,
  detail,
});

/** As it is stored: with an id, and without the time of its recording, which is the repository's to set. */
function ready(event: Json): Ready {
  const { recordTime: _theirs, ...kept } = event;
  const eventId = (kept["eventID"] as string | undefined) ?? `urn:uuid:${randomUUID()}`;
  const whole: Json = { ...kept, eventID: eventId };
  return { eventId, key: isDeclared(whole) ? declaredAs(eventId) : eventId, event: whole, terms: termsOf(whole) };
}
