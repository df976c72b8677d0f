// The first words between a station and its cloud: what each refusal means for who sets one up, and what to do about it.
import type { Device } from "#shared/wire/devices.ts";
import type { NoAnswer } from "./cloud.ts";

/** A station of this device was heard of within the last minute and a half. */
export const isAbout = ({ status }: Device): boolean => status !== "offline";
export const heardOf = ({ name, last_seen: at }: Device): string => `${JSON.stringify(name)} was heard of at ${at}`;
export const ONE_KEY =
  "unless that one has just ended, two stations have one key, and take each other's labels for their own: give this one a device of its own";

/** One line, with what to do. */
export function whyUnmet(origin: string, { status, code, message, leadsTo }: NoAnswer): string {
  if (status === 0) return `${message}: is the address right, and this machine on the network?`;
  if (code === "UNAUTHORIZED")
    return `the cloud at ${origin} doesn't know this key: was it copied whole, is it of this cloud, was it revoked?`;
  if (code === "API_SCOPE_DENIED") return `this key may not do that: it needs the scopes aidc:read and aidc:write (${message})`;
  if (code === "DEVICE_KEY_REQUIRED") return "this key isn't a device's: enroll with it, and the station gets a key of its own";
  if (code === "SANDBOX_EXPIRED") return "the key's tenant is a sandbox whose time is over: ask for another one";
  if (leadsTo !== undefined)
    return `what answers at ${origin} leads to ${leadsTo}, and isn't followed with a key: is that the cloud's address, or does the network want a sign-in?`;
  if (code === "HTTP_511") return `the network wants a sign-in before it lets anybody through to ${origin} (511)`;
  if (code.startsWith("HTTP_5"))
    return `something before the cloud at ${origin} answers in its place: does it run, and can it be reached from there? (${status})`;
  if (code === "NOT_UNDERSTOOD")
    return `what answers at ${origin} isn't the cloud: is the address right, or does the network want a sign-in? (${message})`;
  if (code.startsWith("HTTP_") || code === "NOT_FOUND")
    return `what answers at ${origin} isn't the cloud: is the address right? (${status})`;
  return `${origin} says ${code}: ${message}`;
}
