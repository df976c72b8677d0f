// Security headers by helmet, asked once: they never differ, and its fastify plugin builds them anew for every request (13 µs of 100).
import type { IncomingMessage, ServerResponse } from "node:http";
import helmet from "helmet";

// Answers are data: nothing in them may run, load or be framed. What is left out concerns browsers long gone.
const options = {
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { "default-src": ["'none'"], "frame-ancestors": ["'none'"], "base-uri": ["'none'"] },
  },
  xDnsPrefetchControl: false,
  xDownloadOptions: false,
  xPermittedCrossDomainPolicies: false,
  xXssProtection: false,
  originAgentCluster: false,
} as const;

export function securityHeaders(): Record<string, string> {
  const headers: Record<string, string> = {};
  const recorder = { setHeader: (name: string, value: string) => (headers[name.toLowerCase()] = value), removeHeader: () => {} };
  helmet(options)({} as IncomingMessage, recorder as unknown as ServerResponse, (error?: unknown) => {
    if (error instanceof Error) throw error;
  });
  return headers;
}
