// What tests of EPCIS share: documents on file, events made up, and a hand that captures and asks.
import { globSync, readFileSync } from "node:fs";
import { expect } from "vitest";
import type { Answer, Client } from "../fixtures/client.ts";
import type { World } from "../fixtures/world.ts";

export type Json = Record<string, any>; // oxlint-disable-line typescript/no-explicit-any -- events are whatever the file says
export const CONTEXT = "https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld";
export const fixture = (name: string) => JSON.parse(readFileSync(`fixtures/data/epcis/${name}.json`, "utf8")) as Json;
export const names = globSync("fixtures/data/epcis/*.json").map((file) => file.replace(/^.*[\\/]|\.json$/g, ""));
export const eventsOf = ({ epcisBody: { eventList, event, queryResults } }: Json): Json[] =>
  eventList ?? queryResults?.resultsBody.eventList ?? [event];

export async function tenantOf(w: World): Promise<{ as: Client; id: string }> {
  const { id, admin } = await w.tenant("mill");
  return { as: admin, id };
}
export const document = (eventList: unknown[], more: Json = {}): Json => ({
  "@context": [CONTEXT],
  type: "EPCISDocument",
  schemaVersion: "2.0",
  creationDate: "2026-11-21T09:00:00Z",
  epcisBody: { eventList },
  ...more,
});
export const observed = (more: Json = {}): Json => ({
  type: "ObjectEvent",
  eventID: `urn:uuid:${crypto.randomUUID()}`,
  eventTime: "2026-11-21T08:59:58.123Z",
  eventTimeZoneOffset: "+00:00",
  action: "OBSERVE",
  bizStep: "holding",
  epcList: ["urn:epc:id:sgtin:9506000.013435.42"],
  ...more,
});
export const capture = (as: Client, body: unknown, headers: Record<string, string> = {}) => as.post("/epcis/capture", body, headers);
export async function job(as: Client, answer: Answer): Promise<Json> {
  const { body } = await as.get(String(answer.headers.get("location")).replace("/api/v2", ""));
  expect([answer.status, answer.body]).toEqual([202, body]); // for whoever doesn't go there
  return body;
}
export const found = (answer: Answer): Json[] => {
  expect([answer.status, answer.body?.error]).toEqual([200, undefined]);
  return eventsOf(answer.body);
};
export const ask = async (as: Client, query: Record<string, string>) =>
  found(await as.get(`/epcis/events?${new URLSearchParams(query).toString()}`));
export const idsOf = (events: Json[]) => events.map(({ eventID }) => eventID as string);
export const refusal = ({ status, body }: Answer) => [status, body.error.code, body.error.details?.epcisType];

/** All pages by their links, and what happened between them. */
export async function walk(
  origin: string,
  as: Client,
  query: string,
  between: () => Promise<unknown> = async () => {},
): Promise<string[][]> {
  const pages: string[][] = [];
  for (let at: string | undefined = `/epcis/events?${query}`; at;) {
    const answer: Answer = await as.get(at);
    pages.push(idsOf(found(answer)));
    const link = /^<([^>]+)>; rel="next"$/.exec(answer.headers.get("link") ?? "")?.[1];
    expect(link === undefined || link.startsWith(`${origin}/api/v2/`)).toBe(true);
    at = link?.replace(`${origin}/api/v2`, "");
    await between();
  }
  return pages;
}
