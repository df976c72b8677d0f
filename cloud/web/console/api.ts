// The page's requests: the API that everybody has, ridden by the session's cookie. A refusal is an answer like another.
import { API } from "#shared/api.ts";

const [RETRY_AFTER_S, RETRY_AFTER_MAX_S] = [5, 60];
/** The cloud answers within 30 s, if only with 503: after that the line is dead, and nobody tells the browser. */
const ANSWER_MAX_MS = 45_000;
export const addressOf = (path: string): string => (/^\/(?:console|\.well-known)\//.test(path) ? path : API + path);

type Fault = "signed-out" | "denied" | "absent" | "busy" | "failed";
/** `message` is the cloud's own, in English. */
export type Refused = { fault: Fault; code: string; message: string; retryMs: number };
export type Answer<Data> = { data: Data; refused?: undefined } | { data?: undefined; refused: Refused };

const faultOf = (status: number, code: string): Fault => {
  if (status === 401) return "signed-out";
  if (code === "API_SCOPE_DENIED" || code === "FORBIDDEN") return "denied";
  if (status === 404) return "absent";
  return status === 429 || status === 503 ? "busy" : "failed";
};

let signedOut = () => {};
/** What to do once the session turns out to be over. */
export const onSignedOut = (act: () => void): void => {
  signedOut = act;
};

async function answerOf<Data>(response: Response): Promise<Answer<Data>> {
  const text = await response.text();
  const body: unknown = text === "" ? undefined : JSON.parse(text);
  if (response.ok) return { data: body as Data };
  const { code = "", message = response.statusText } = (body as { error?: { code?: string; message?: string } } | undefined)?.error ?? {};
  const fault = faultOf(response.status, code);
  if (fault === "signed-out") signedOut();
  const after = Number(response.headers.get("retry-after")) || RETRY_AFTER_S; // a proxy may say it as a date, which is no number
  return { refused: { fault, code, message, retryMs: Math.min(after, RETRY_AFTER_MAX_S) * 1_000 } };
}

async function ask<Data>(path: string, init: RequestInit = {}): Promise<Answer<Data>> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ANSWER_MAX_MS);
  try {
    return await answerOf<Data>(await fetch(addressOf(path), { credentials: "same-origin", signal: late.signal, ...init }));
  } catch {
    return { refused: { fault: "busy", code: "AWAY", message: "", retryMs: RETRY_AFTER_S * 1_000 } }; // the network is away, or what answered wasn't the cloud
  } finally {
    clearTimeout(timer);
  }
}

export const get = <Data>(path: string): Promise<Answer<Data>> => ask<Data>(path);
/** Always JSON: a form of another site can't send that. */
export const send = <Data>(method: "POST" | "DELETE", path: string, body: object = {}): Promise<Answer<Data>> =>
  ask<Data>(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export async function bytesAt(path: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
  try {
    const response = await fetch(addressOf(path), { credentials: "same-origin" });
    return response.ok ? new Uint8Array(await response.arrayBuffer()) : undefined;
  } catch {
    return undefined;
  }
}
