// Where the console listens: whether it could, and why it can't in words that say what to set.
import { once } from "node:events";
import { createServer } from "node:http";
import { codeOf } from "#shared/fault.ts";

/** Known before anything is begun: jobs of a station that then ends would wait for it. */
export async function tryAddress({ host, port }: { host: string; port: number }): Promise<void> {
  const server = createServer().listen(port, host);
  await once(server, "listening");
  await new Promise((resolve) => server.close(resolve));
}

/** What a station does with no other address than the console's while it starts. */
const LISTENING = new Set(["listen", "getaddrinfo"]);
export function addressFault(error: Error & { syscall?: string }): string | undefined {
  if (codeOf(error) === "EADDRINUSE") return `${error.message}: another agent's console? set console.port`;
  return LISTENING.has(error.syscall ?? "") ? `${error.message}: see console.host and console.port` : undefined;
}
