// Where a webhook may go: public addresses by https, so that nobody makes us knock on doors inside our own house.
import { isIP } from "node:net";
import ip from "ipaddr.js";
import { bareHost } from "#shared/url-at.ts";

/** Link-local stays shut even for those who let private addresses in: clouds hand out their credentials there. */
const PRIVATE = new Set<string>(["private", "loopback", "uniqueLocal", "carrierGradeNat"]);
/** And at these: AWS by IPv6, Google by IPv6, Alibaba, Azure. */
const CREDENTIALS = new Set(["fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16"]);
const GLOBAL_V6 = ip.parseCIDR("2000::/3") as [ip.IPv6, number];

/** Why nothing is sent to this address; undefined where it may be. A mapped IPv4 address is judged as what it maps. `called`: where it isn't to be told. */
export function addressFault(address: string, allowPrivate: boolean, called = address): string | undefined {
  const parsed = ip.process(address.split("%")[0] ?? address);
  const range = CREDENTIALS.has(parsed.toString()) ? "metadata" : parsed.range();
  if (allowPrivate && PRIVATE.has(range)) return undefined;
  const isPublic = range === "unicast" && (parsed.kind() === "ipv4" || (parsed as ip.IPv6).match(GLOBAL_V6));
  return isPublic ? undefined : `${called} is not a public address (${range})`;
}

const LOCAL_NAME = /(^|\.)(localhost|local|internal|home\.arpa)$/;

/** What is wrong with the URL before any name is looked up, as a sentence's end. */
export function urlFault(text: string, allowPrivate: boolean): string | undefined {
  if (!URL.canParse(text)) return "isn't a URL";
  if (/[\s\p{Cc}]/u.test(text)) return "can't hold spaces or control characters"; // a parser drops them: what is shown wouldn't be where it goes
  const { protocol, username, password, hash, port, hostname } = new URL(text);
  if (protocol !== "https:" && !(allowPrivate && protocol === "http:")) return "must begin with https://";
  if (username || password) return "can't hold a user name or password: sign-in data would stand in the log of every proxy";
  if (hash) return "can't have a fragment: it is never sent";
  if (!allowPrivate && port !== "" && Number(port) < 1024) return `can't go to port ${port}: 443 and those from 1024 on are open`;
  const host = hostOf(hostname);
  if (isIP(host)) return addressFault(host, allowPrivate);
  return !allowPrivate && (LOCAL_NAME.test(host) || !host.includes(".")) ? `${host} is not a public name` : undefined;
}

/** As a resolver takes it: an IPv6 address without its brackets, a name without its last dot. */
export const hostOf = (hostname: string): string => bareHost(hostname).replace(/\.$/, "");
