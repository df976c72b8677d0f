// Asking a print queue: one IPP message out over HTTP, one back, and an honest word on whether anything can have left.
import { codeOf, reasonOf } from "#shared/fault.ts";
import { saying } from "#shared/sayings.ts";
import { bodyWithin } from "#shared/bounded-body.ts";
import { afterHearing, type Clock, systemClock } from "../clock.ts";
import { type Attributes, decodeIpp, encodeIpp, firstOf, GROUPS, groupsOf, OPERATIONS, TAGS, type Written } from "./ipp-codec.ts";

type Question = {
  wants?: string[];
  keywords?: Record<string, string>;
  jobId?: number;
  name?: string;
  format?: string;
  document?: Uint8Array;
  withinMs?: number;
};
/** `fault`: the queue said no, and did nothing. */
export type Answer = { code: number; fault?: string; jobs: Attributes[]; printer: Attributes[] };
/** Rejects with a sentence where there is no answer; `untouched` on it says that no connection was made. */
export type Endpoint = { ask(operation: keyof typeof OPERATIONS, question?: Question): Promise<Answer> };

const ANSWER_MAX_BYTES = 4_194_304;
const USER = "imprimatur";
const ERRORS_FROM = 0x0400;

export function endpointOf(url: string, answerMs: number, clock: Clock = systemClock): Endpoint {
  const to = /^ipps?:\/\//i.test(url) ? URL.parse(url) : null;
  if (!to?.hostname || to.username || to.search || to.hash)
    throw new Error(`the port ${JSON.stringify(url)} isn't of the form ipp://HOST[:PORT]/printers/NAME`);
  const { protocol, hostname, port, pathname } = to;
  const place = `${hostname}:${port || 631}${pathname || "/"}`;
  const [http, printerUri] = [`${protocol === "ipps:" ? "https" : "http"}://${place}`, `${protocol}//${place}`];
  let requestId = 0;

  return {
    ask: async (operation, question = {}) => {
      const id = (requestId += 1);
      const body = encodeIpp({
        code: OPERATIONS[operation],
        requestId: id,
        groups: [operationGroup(printerUri, question), ...jobGroup(operation)],
        ...(question.document ? { data: question.document } : {}),
      });
      const answer = decodeIpp(await post(http, body, question.withinMs ?? answerMs, clock));
      if (answer.requestId !== id) throw new Error(`${http} answers another question`);
      const [about] = groupsOf(answer, GROUPS.operation);
      const words = firstOf(about, "status-message", "string");
      const fault =
        answer.code >= ERRORS_FROM ? `${words ?? "no reason given"} (0x${answer.code.toString(16).padStart(4, "0")})` : undefined;
      return {
        code: answer.code,
        jobs: groupsOf(answer, GROUPS.job),
        printer: groupsOf(answer, GROUPS.printer),
        ...(fault === undefined ? {} : { fault }),
      };
    },
  };
}

/** RFC 8011 wants charset and language first, then the target. */
function operationGroup(printerUri: string, { wants, keywords = {}, jobId, name, format }: Question): Written {
  const attributes: Written["attributes"] = {
    "attributes-charset": [TAGS.charset, "utf-8"],
    "attributes-natural-language": [TAGS.language, "en"],
    "printer-uri": [TAGS.uri, printerUri],
  };
  if (jobId !== undefined) attributes["job-id"] = [TAGS.integer, jobId];
  attributes["requesting-user-name"] = [TAGS.name, USER];
  if (name !== undefined) attributes["job-name"] = [TAGS.name, name];
  if (format !== undefined) attributes["document-format"] = [TAGS.mime, format];
  for (const [keyword, value] of Object.entries(keywords)) attributes[keyword] = [TAGS.keyword, value];
  if (wants) attributes["requested-attributes"] = [TAGS.keyword, ...wants];
  return { tag: GROUPS.operation, attributes };
}
/** One copy, at its own size. */
const jobGroup = (operation: string): Written[] =>
  operation === "Print-Job"
    ? [{ tag: GROUPS.job, attributes: { copies: [TAGS.integer, 1], "print-scaling": [TAGS.keyword, "none"] } }]
    : [];

/** Codes of a connection that was never made. */
const UNTOUCHED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

async function post(url: string, body: Uint8Array, withinMs: number, clock: Clock): Promise<Uint8Array> {
  const late = new AbortController();
  const cancel = afterHearing(clock, withinMs, () => late.abort(new Error(saying("no_answer_within", { seconds: withinMs / 1000 }))));
  try {
    const answer = await fetch(url, {
      method: "POST",
      // A connection that is kept may be gone when the label is sent, and nobody would know whether it left.
      headers: { "content-type": "application/ipp", connection: "close" },
      body: new Uint8Array(body),
      redirect: "error",
      signal: late.signal,
    });
    if (!answer.ok) {
      await answer.body?.cancel();
      throw Object.assign(new Error(saying("queue_http", { status: answer.status })), {
        untouched: [401, 403, 404, 405, 413, 426].includes(answer.status),
      });
    }
    return await bodyWithin(answer, ANSWER_MAX_BYTES, () => new Error(`the queue answers more than ${ANSWER_MAX_BYTES} bytes`));
  } catch (error) {
    const untouched = (error as { untouched?: boolean }).untouched ?? UNTOUCHED.has(codeOf((error as Error).cause));
    throw Object.assign(new Error(`${url}: ${reasonOf(error as Error)}`, { cause: error }), { untouched });
  } finally {
    cancel();
  }
}
