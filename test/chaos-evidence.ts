// All that the history checker judges, read from the API, the floor and the receivers once it is quiet again.
import { setTimeout as sleep } from "node:timers/promises";
import type { Kept } from "../fixtures/chaos/clients.ts";
import type { Ear } from "../fixtures/chaos/ear.ts";
import type { Figures, Site, Tenant } from "../fixtures/chaos/site.ts";
import type { Client } from "../fixtures/client.ts";
import { lying } from "../fixtures/person.ts";
import { isGood } from "../fixtures/printers/machine.ts";
import type { JobState } from "#shared/states.ts";
import type { Growth, Head, Leaf } from "./cluster-checker.ts";
import type { Arrival, Asked, Delivery, History, Job, Line, Print } from "./history-checker.ts";
import type { Answered, Moment } from "./print-checker.ts";

/** What the run itself knows. */
export type Known = {
  acknowledged: string[];
  allocated: number;
  heads: Head[];
  before: Figures[];
  after: Figures[];
  walMaxBytes: number;
  /** Deliveries that a person sent again. */
  byHand: ReadonlySet<string>;
};
type Wire = { job_ref: string; state: JobState; serial: string; digital_link: string; max_attempts: number; reprint: boolean };

const ASKED_AGAIN = 12;
const STATE_TRIES = 10;
const STATE_PAUSE_MS = 500;
const REST_TRIES = 100;
const REST_PAUSE_MS = 100;

/** Every row of a list. */
export async function all<T>(client: Client, path: string): Promise<T[]> {
  const rows: T[] = [];
  for (let cursor: string | null = ""; cursor !== null;) {
    const page = `${path}${path.includes("?") ? "&" : "?"}limit=200${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;
    const { data, nextCursor } = (await client.get(page)).body as { data: T[]; nextCursor: string | null };
    rows.push(...data);
    cursor = nextCursor;
  }
  return rows;
}

async function serialsOf({ admin, product }: Tenant, state = ""): Promise<string[]> {
  const { text } = await admin.get(`/carriers/export?productId=${product.id}&format=json${state && `&printState=${state}`}`);
  return (JSON.parse(text) as { data: { serial: string }[] }).data.map(({ serial }) => serial);
}

/** What was never answered may be on record, once, or not at all: the lease may have been over before it could be said again. */
export function answeredOf(ear: Pick<Ear, "said" | "asked">, ref: string, history: readonly Moment[]): Answered[] {
  const said = ear.said.get(ref) ?? [];
  const isSame = (a: Pick<Answered, "attempt_id" | "status">) => (b: Pick<Answered, "attempt_id" | "status">) =>
    a.attempt_id === b.attempt_id && a.status === b.status;
  const isThere = (word: Answered) => history.some(({ attempt_id, to }) => attempt_id === word.attempt_id && to === word.status);
  return [...said, ...(ear.asked.get(ref) ?? []).filter((word) => isThere(word) && !said.some(isSame(word)))];
}

const DECIDES: ReadonlySet<JobState> = new Set(["SEALED", "DEAD_LETTER"]);
/** Which of a serial's jobs, the latest first, has the last word on it. */
const deciding = (its: readonly Wire[]): Wire | undefined => its.find(({ state }) => DECIDES.has(state)) ?? its[0];

async function jobOf(
  site: Site,
  { admin }: Tenant,
  wire: Wire,
  its: readonly Wire[],
  toReprint: ReadonlySet<string>,
): Promise<{ job: Job; leaf: Leaf[] }> {
  const { job_ref: ref, serial, digital_link: link, max_attempts: maxAttempts, reprint } = wire;
  const [told, carrier, evidence, events] = await Promise.all([
    admin.get(`/aidc/jobs/${ref}/history`),
    admin.get(`/carriers/${serial}`),
    admin.get(`/aidc/jobs/${ref}/evidence`),
    admin.get(`/epcis/events?MATCH_epc=${encodeURIComponent(link)}&EQ_bizStep=commissioning`),
  ]);
  const history = told.body.data as (Moment & { at: string })[];
  const { proof } = evidence.body as {
    proof?: { index: number; size: number; leafHash: string; root: string; proof: string[] };
  };
  const job: Job = {
    ref,
    serial,
    link,
    history,
    at: history.map(({ at }) => Date.parse(at)),
    answered: answeredOf(site.ear, ref, history),
    print: deciding(its) === wire ? (carrier.body.metadata.print?.status ?? null) : undefined,
    reprint,
    mayBeGone: its[0] !== wire,
    maxAttempts,
    commissioned: events.body.epcisBody.queryResults.resultsBody.eventList.length,
    inReprintFile: toReprint.has(serial),
  };
  const leaf = proof && { ref, index: proof.index, size: proof.size, leaf: proof.leafHash, root: proof.root, proof: proof.proof };
  return { job, leaf: leaf ? [leaf] : [] };
}

type DeliveryWire = {
  id: string;
  eventId: string;
  type: string;
  status: string;
  attempts: { at: string; status: number | null; nextTryAt: string | null }[];
};
async function deliveriesOf({ admin, webhook, refused }: Tenant, byHand: ReadonlySet<string>): Promise<Delivery[]> {
  const rows: DeliveryWire[] = [];
  for (const id of [webhook, refused]) rows.push(...(await all<DeliveryWire>(admin, `/webhooks/${id}/deliveries`)));
  return rows.map(({ attempts, ...row }) => ({
    ...row,
    byHand: byHand.has(row.id),
    attempts: attempts.map(({ at, status, nextTryAt }) => ({
      at: Date.parse(at),
      status,
      nextTryAt: nextTryAt === null ? null : Date.parse(nextTryAt),
    })),
  }));
}
const arrivalsOf = ({ receiver }: Tenant): (Arrival & { ref: string; type: string })[] =>
  receiver.received.map((one) => ({
    deliveryId: one.deliveryId,
    eventId: one.event.id,
    body: one.body,
    fault: one.fault,
    answered: receiver.answered.get(one) ?? null,
    ref: String(one.event.data["job_ref"]),
    type: one.event.type,
  }));

/** A busy machine's station is slow to answer, and not gone. */
async function stateOf({ state }: Site["lines"][number]): ReturnType<typeof state> {
  for (let tries = 1; tries < STATE_TRIES; tries += 1) {
    const told = await state();
    if (told) return told;
    await sleep(STATE_PAUSE_MS);
  }
  return state();
}

async function linesOf({ lines }: Tenant, sealed: ReadonlySet<string>): Promise<Line[]> {
  return Promise.all(
    lines.map(async (line) => {
      const state = await stateOf(line);
      return {
        name: line.name,
        backlog: state?.buffer_depth ?? Number.NaN,
        inHand: state?.jobs.map(({ job_ref: ref, stage, ask }) => `${ref}, ${stage}${ask ? `, asked ${ask.kind}` : ""}`) ?? [],
        quarantined: state?.quarantine.map(({ code, message }) => `${code}: ${message}`) ?? [`it doesn't answer: ${line.complaints()}`],
        ledger: JSON.stringify([
          state?.ledger.counts,
          state?.ledger.open,
          state?.jobs.map(({ job_ref: ref, stage, ask }) => [ref, stage, ask]),
        ]),
        sealedInLedger: state?.ledger.counts["sealed"] ?? 0,
        sealedOnFloor:
          (await lying(line)).filter(({ n, link }) => sealed.has(link) && !line.worn.some((one) => one.n === n)).length + line.worn.length,
      };
    }),
  );
}

/** As good as the body, and another. */
function otherThan(body: string): string {
  const { count, items, name, reason, ...rest } = JSON.parse(body) as { count?: number; items?: unknown[]; name?: string; reason?: string };
  return JSON.stringify({
    ...rest,
    ...(count && { count: count + 1 }),
    ...(items && { items: items.slice(1) }),
    ...(name && { name: `${name}!` }),
    ...(reason && { reason: `${reason}!` }),
  });
}

/** Some of the writes, asked again as they were and with another body. */
async function askAgain({ clients }: Site, calls: readonly Kept[]): Promise<Asked[]> {
  const writes = calls.filter(({ isWrite, body }) => isWrite && body?.startsWith("{"));
  const some = writes.filter((_call, i) => i % Math.ceil(writes.length / ASKED_AGAIN) === 0);
  return Promise.all(
    some.map(async (call) => {
      const { digest, replayed } = await clients.again(call);
      const other = await clients.again(call, otherThan(call.body ?? "{}"));
      return { key: call.key, digest, replayed, other: other.code };
    }),
  );
}

async function growthsOf(client: Client, heads: readonly Head[]): Promise<Growth[]> {
  const growths: Growth[] = [];
  for (const [i, to] of heads.entries()) {
    const from = heads[i - 1];
    if (from) growths.push({ from, to, proof: (await client.get(`/log/consistency?from=${from.size}&to=${to.size}`)).body.proof });
  }
  return growths;
}

/** What is stuck in the store is there at every look; stations go on asking, so that on a slow machine something of some node's always is. */
export async function atRest({ figures }: Site): Promise<Figures[]> {
  let rest = await figures();
  for (let tries = 1; rest.some(({ queued }) => queued > 0) && tries < REST_TRIES; tries += 1) {
    await sleep(REST_PAUSE_MS);
    rest = (await figures()).map((now, n) => ({ ...now, queued: Math.min(now.queued, rest[n]?.queued ?? now.queued) }));
  }
  return rest;
}

/** Good labels that lie there, without those that another has taken the place of. */
async function inUse(line: Site["lines"][number], sealedRefs: ReadonlySet<string>): Promise<string[]> {
  const isReplaced = (n: number) => line.worn.some((one) => one.n === n && sealedRefs.has(one.replacedBy));
  return (await lying(line)).flatMap(({ n, link }) => (isReplaced(n) ? [] : link));
}

async function printsOf({ name, floor }: Site["lines"][number]): Promise<Print[]> {
  const links = await floor.links();
  const good = floor.machine?.labels.filter(isGood) ?? [];
  return good.map(({ at }, i) => ({ station: name, link: links[i] ?? "", at }));
}

export async function gathered(site: Site, known: Known): Promise<History> {
  const { tenants, clients, ear, sightings } = site;
  clients.record(false);
  const jobs: Job[] = [];
  const leaves: Leaf[] = [];
  const present = new Set<string>();
  const serials: string[] = [];
  const deliveries: Delivery[] = [];
  const audited = new Map<string, number>();
  const lines: Line[] = [];
  let chainsHold = true;
  for (const tenant of tenants) {
    const { admin } = tenant;
    const toReprint = new Set(await serialsOf(tenant, "failed"));
    serials.push(...(await serialsOf(tenant)));
    const wires = await all<Wire>(admin, "/aidc/jobs");
    const bySerial = Map.groupBy(wires, ({ serial }) => serial);
    for (const wire of wires) {
      const { job, leaf } = await jobOf(site, tenant, wire, bySerial.get(wire.serial) ?? [], toReprint);
      jobs.push(job);
      leaves.push(...leaf);
      present.add(wire.job_ref);
    }
    for (const { id } of await all<{ id: string }>(admin, "/products")) present.add(id);
    deliveries.push(...(await deliveriesOf(tenant, known.byHand)));
    for (const { requestId } of await all<{ requestId: string }>(admin, "/audit-logs"))
      audited.set(requestId, 1 + (audited.get(requestId) ?? 0));
    lines.push(...(await linesOf(tenant, new Set(wires.flatMap((wire) => (wire.state === "SEALED" ? [wire.digital_link] : []))))));
    chainsHold &&= (await admin.get("/audit-logs/verify")).body.valid;
  }
  const arrivals = tenants.flatMap(arrivalsOf);
  const sealedRefs = new Set(jobs.flatMap(({ ref, history }) => (history.at(-1)?.to === "SEALED" ? [ref] : [])));
  const growths = tenants[0] ? await growthsOf(tenants[0].admin, known.heads) : [];
  return {
    jobs,
    claims: ear.claims,
    paper: (await Promise.all(site.lines.map((line) => inUse(line, sealedRefs)))).flat(),
    acknowledged: [...known.acknowledged, ...site.lines.flatMap(({ worn }) => worn.map(({ replacedBy }) => replacedBy))],
    present,
    delivered: arrivals
      .filter(({ type }) => type === "print.confirmed")
      .map(({ deliveryId, eventId, ref }) => ({ deliveryId, eventId, ref })),
    chainsHold,
    growths,
    leaves,
    calls: clients.calls,
    asked: await askAgain(site, clients.calls),
    leases: ear.leases,
    deliveries,
    arrivals,
    allocated: { acknowledged: known.allocated, present: serials },
    audited,
    sightings,
    bounds: { before: known.before, after: known.after, walMaxBytes: known.walMaxBytes },
    lines,
    prints: (await Promise.all(site.lines.map(printsOf))).flat(),
  };
}
