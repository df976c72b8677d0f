// Addresses whose slashes the router would take otherwise. A Digital Link finds its route by its shape alone: it would be decoded before it is split, and %2F would tear a serial apart.
import { API } from "#shared/api.ts";

/** Without the scheme and host that whoever takes us for a proxy sends along (RFC 9112, 3.2.2). */
export const originForm = (url: string): string => url.replace(/^https?:\/\/[^/?]*(?=\/)/i, "");

/** The address that a request is routed by; what was sent stays in `originalUrl`. */
export function routedAs(sent: string): string {
  const url = originForm(sent);
  if (url.startsWith("/01/")) return linkShape(url);
  if (url.startsWith(TILES)) return tileShape(url);
  const epc = /^\/e([hx])[^/?]+\/?(?:\?|$)/.exec(url);
  return epc ? `/e${epc[1]}-` : url;
}

const TILES = `${API}/log/tile/`;
/** A tile's number is one value, whose groups are parted by slashes. */
function tileShape(url: string): string {
  const [, start = url, name = "", rest = ""] = /^((?:\/[^/?]+){5}\/)([^?]+)(.*)$/.exec(url) ?? [];
  return start + name.replaceAll("/", "%2F") + rest;
}

/** What fits none of the documented shapes goes to the longest of them, which tells what is wrong with it. */
function linkShape(url: string): string {
  const [, , , qualifier, value, ...rest] = pathOf(url).split("/");
  if (qualifier === undefined) return "/01/-";
  if (value !== undefined && rest.length === 0 && (qualifier === "21" || qualifier === "10")) return `/01/-/${qualifier}/-`;
  return "/01/-/22/-/10/-/21/-";
}

/** The path without the query and without its one trailing slash. */
function pathOf(url: string): string {
  const end = url.indexOf("?");
  const path = end < 0 ? url : url.slice(0, end);
  return path.endsWith("/") ? path.slice(0, -1) : path;
}
