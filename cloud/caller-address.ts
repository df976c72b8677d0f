// Whose address a request counts against: the one at the other end of the socket, or what a trusted proxy says of it, and never what a caller says of itself.
import ip from "ipaddr.js";

/** The list of a setting: addresses and ranges, parted by commas or blanks. */
export function proxiesIn(text: string): string[] {
  const named = text.split(/[,\s]+/).filter(Boolean);
  for (const one of named) {
    if (!ip.isValid(one) && !ip.isValidCIDR(one)) throw new Error(`must list addresses or ranges such as 10.0.0.0/8; ${one} is neither`);
    if (one.endsWith("/0")) throw new Error(`must not trust everybody: with ${one} any caller could say that it is another`);
  }
  return named;
}

/** Who has one IPv6 address has 2^64 of them, so that they count as one; what a proxy says and isn't an address is the proxy's. */
export function countedAs(said: string, socket: string | undefined): string {
  const known = [withoutPort(said), socket ?? ""].find((one) => ip.isValid(one));
  if (known === undefined) return "unknown";
  const address = ip.process(known);
  return address.kind() === "ipv4" ? address.toString() : ip.IPv6.networkAddressFromCIDR(`${address.toString()}/64`).toString();
}

/** Some balancers add the port to a caller's address: `203.0.113.1:51034`, `[2001:db8::1]:51034`. */
const withoutPort = (said: string): string => /^(?:\[(.*)\]|([\d.]+))(?::\d+)?$/.exec(said)?.slice(1).find(Boolean) ?? said;
