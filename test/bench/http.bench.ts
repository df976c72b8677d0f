// HTTP: an authenticated, idempotent, audited POST against a bare fastify POST of the same size, each server in a process of its own.
import { randomUUIDv7 } from "node:crypto";
import autocannon from "autocannon";
import { duel, lasting, type Line, ratioLine } from "./measure.ts";
import { cloudOn, KEY, startServer } from "./servers.ts";

const CONNECTIONS = 64;
const body = JSON.stringify({ name: "a key of the bench, about as long as a name is", scopes: ["products:read", "aidc:read"] });

async function load(url: string, headers: Record<string, string>, ms: number): Promise<number> {
  const result = await autocannon({
    url,
    connections: CONNECTIONS,
    ...lasting(ms),
    requests: [
      {
        method: "POST",
        body,
        setupRequest: (request) => ({
          ...request,
          headers: { "content-type": "application/json", ...headers, "idempotency-key": randomUUIDv7() },
        }),
      },
    ],
  });
  if (result.non2xx > 0 || result.errors > 0) throw new Error(`${result.non2xx} answers weren't 2xx, ${result.errors} failed`);
  return result["2xx"];
}

export async function httpBench(): Promise<Line[]> {
  const ours = await cloudOn();
  const bare = await startServer("./bare.ts", {});
  const headers = { authorization: `Bearer ${KEY}` };
  try {
    const result = await duel(
      { name: "POST /oauth/clients", run: (ms) => load(`${ours.url}/api/v2/oauth/clients`, headers, ms) },
      { name: "bare fastify POST", run: (ms) => load(`${bare.url}/`, headers, ms) },
    );
    return [ratioLine("http: an authenticated, idempotent, audited POST against a bare fastify POST", result, 0.25, "requests")];
  } finally {
    await ours.end();
    await bare.end();
  }
}
