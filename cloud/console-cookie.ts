// The console's cookie: readable by no script, sent by no other site, and over https bound to this very host.
import type { IncomingHttpHeaders } from "node:http";
import { limits } from "#shared/limits.ts";

const PLAIN = "imprimatur_console";
const BOUND = `__Host-${PLAIN}`;
const SENT = new RegExp(`(?:^|;\\s*)(?:__Host-)?${PLAIN}=([\\w-]{43})(?=;|$)`);

export const cookieIn = ({ cookie = "" }: IncomingHttpHeaders): string | undefined => SENT.exec(cookie)?.[1];

/** `value` absent: the browser forgets it. */
export function setCookie(origin: string, value?: string): { "set-cookie": string } {
  const secure = origin.startsWith("https:");
  const seconds = value === undefined ? 0 : limits.CONSOLE_SESSION_LIFE_S;
  const rules = `Max-Age=${seconds}; Path=/; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
  return { "set-cookie": `${secure ? BOUND : PLAIN}=${value ?? ""}; ${rules}` };
}
