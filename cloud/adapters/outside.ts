// One question to a service outside: bounded in time and in size, asked again under the same key where it went astray, never led elsewhere.
import type { KyInstance, KyResponse } from "ky";
import { limits } from "#shared/limits.ts";
import { type Judge, judgeOf } from "../validate.ts";

type Question = { url: string; body: object; /** The same for the same question: whoever hears it twice must do it once. */ key: string };
/** An answer of the shape asked for; rejects with a sentence that says what went wrong, for the log and the operator. */
export type Ask<Answer> = (question: Question) => Promise<Answer>;

const ATTEMPTS = 3;
const RETRY_AFTER_MAX_MS = 1_000;
/** Every 5xx: what stands before a service has numbers of its own for one that is away. */
const RETRIED = [408, 429, ...Array.from({ length: 100 }, (_, i) => 500 + i)];

export function asking<Answer>(shape: object): Ask<Answer> {
  const judge = judgeOf(shape);
  return async ({ url, body, key }) => {
    const { default: ky } = await import("ky"); // a cloud that asks nobody doesn't load it
    const line = new AbortController(); // cuts bodies too, which ky's own timeouts don't see in a hook
    const late = setTimeout(() => line.abort(new Error(LATE)), limits.OUTSIDE_CALL_MAX_MS);
    const asked = ky.post(url, {
      json: body,
      // On a line of its own: what a service says twice is never taken for the answer to the next question.
      headers: { accept: "application/json", "idempotency-key": key, connection: "close" },
      redirect: "manual",
      timeout: limits.OUTSIDE_TRY_MAX_MS,
      signal: line.signal,
      retry: {
        limit: ATTEMPTS - 1,
        methods: ["post"],
        statusCodes: RETRIED,
        maxRetryAfter: RETRY_AFTER_MAX_MS,
        jitter: true,
        retryOnTimeout: true,
      },
      hooks: { afterResponse: [({ response }) => whole(response, line, (cause) => ky.retry({ cause }))] },
    });
    const answer = await asked
      .then(textOf)
      .catch((error: unknown) => {
        throw line.signal.aborted ? line.signal.reason : new Error(sentence(error), { cause: error });
      })
      .finally(() => clearTimeout(late));
    return fitting(answer, judge) as Answer;
  };
}

const DONE = new Set([200, 201]); // who says 202 hasn't done it yet
async function textOf(response: KyResponse): Promise<string> {
  if (!DONE.has(response.status)) throw new Error(`it answered ${response.status}`);
  return response.text();
}

const LATE = "it didn't answer in time";
type Again = ReturnType<KyInstance["retry"]>;
/** The answer with its whole body, if that isn't too large; asked for again where the connection broke in the middle. */
async function whole(response: KyResponse, line: AbortController, again: (cause: Error) => Again): Promise<Response | Again> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of response.body ?? []) {
      size += chunk.length;
      if (size > limits.OUTSIDE_ANSWER_MAX_BYTES)
        line.abort(new Error(`its answer has more than ${limits.OUTSIDE_ANSWER_MAX_BYTES} bytes`));
      chunks.push(chunk);
    }
  } catch (cause) {
    if (line.signal.aborted) throw cause;
    return again(cause as Error);
  }
  const { status, headers } = response;
  return new Response(chunks.length === 0 ? null : Buffer.concat(chunks), { status, headers });
}

function fitting(text: string, judge: Judge): unknown {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch (cause) {
    throw new Error("its answer isn't JSON", { cause });
  }
  const [fault] = judge(answer);
  if (fault) throw new Error(`its answer isn't what was agreed: ${fault.field} ${fault.message}`);
  return answer;
}

type Trouble = Error & { response?: { status: number }; code?: string };
/** The innermost reason: ky and fetch each wrap what the socket said. */
function sentence(error: unknown): string {
  const { name, message, response, code, cause } = error as Trouble;
  if (response)
    return response.status < 400 ? `it sent us elsewhere (${response.status}), which isn't followed` : `it answered ${response.status}`;
  if (name === "TimeoutError") return LATE;
  if (cause instanceof Error) return sentence(cause);
  return code ? `it can't be reached (${code})` : message;
}
