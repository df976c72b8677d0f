// The console's cookie: readable by no script, sent by no other site, and over https bound to this very host.
import type { IncomingHttpHeaders } from "node:http";
import { limits } from "#shared/limits.ts";

export const PLAIN = "imprimatur_console";
const BOUND = `__Host-${PLAIN}`;
const sentAs = (name: string) => new RegExp(`(?:^|;\\s*)${name}=([\\w-]{43})(?=;|$)`);
const SENT = { plain: sentAs(PLAIN), bound: sentAs(BOUND) };
const isSecure = (origin: string): boolean => origin.startsWith("https:");

/** By the one name that it is given here: over https a neighbour of the host, or who sits on the line, could plant the plain one. */
export const cookieIn = ({ cookie = "" }: IncomingHttpHeaders, origin: string): string | undefined =>
  (isSecure(origin) ? SENT.bound : SENT.plain).exec(cookie)?.[1];

/** `value` absent: the browser forgets it. */
export function setCookie(origin: string, value?: string): { "set-cookie": string } {
  const secure = isSecure(origin);
  const seconds = value === undefined ? 0 : limits.CONSOLE_SESSION_LIFE_S;
  const rules = `Max-Age=${seconds}; Path=/; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
  return { "set-cookie": `${secure ? BOUND : PLAIN}=${value ?? ""}; ${rules}` };
}
