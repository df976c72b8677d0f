// The page's requests: the API that everybody has, ridden by the session's cookie. A refusal is an answer like another.

const PREFIX = "/api/v2";
export const addressOf = (path: string): string => (/^\/(?:console|\.well-known)\//.test(path) ? path : PREFIX + path);

type Fault = "signed-out" | "denied" | "absent" | "busy" | "failed";
export type Refused = { fault: Fault; message: string; retryMs: number };
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
  return { refused: { fault, message, retryMs: Number(response.headers.get("retry-after") ?? 5) * 1_000 } };
}

async function ask<Data>(path: string, init: RequestInit = {}): Promise<Answer<Data>> {
  try {
    return await answerOf<Data>(await fetch(addressOf(path), { credentials: "same-origin", ...init }));
  } catch {
    return { refused: { fault: "busy", message: "", retryMs: 5_000 } }; // the network is away, or what answered wasn't the cloud
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
