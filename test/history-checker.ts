// What has to be true after whatever befell the system: the invariants I1 to I16, judged from what every client asked and heard, what is on record,
// what the webhooks' receiver got and what lies on the floor. Pure, so that it can itself be tested with lies.
import { errors } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { hasEnded, type JobState } from "#shared/states.ts";
import type { Call } from "../fixtures/chaos/clients.ts";
import type { Figures } from "../fixtures/chaos/site.ts";
import { brokenCluster, type Cluster, type Job as ClusterJob } from "./cluster-checker.ts";

/** What a key answered when it was asked again afterwards, with the same request and with another. */
export type Asked = { key: string; digest: string; replayed: boolean; other: string | null };
/** A lease as it was granted or renewed, in the store's time. */
type Lease = { attemptId: string; until: number };
export type Job = ClusterJob & {
  at: number[]; // of each moment of its history, in the store's time
  maxAttempts: number;
  commissioned: number; // its serial, by all of its jobs
  inReprintFile: boolean; // its serial
};
export type Delivery = {
  id: string;
  eventId: string;
  type: string;
  status: string;
  attempts: { at: number; status: number | null; nextTryAt: number | null }[];
  /** Sent again by a person, so that a new schedule begins. */
  byHand: boolean;
};
export type Arrival = { deliveryId: string; eventId: string; body: string; fault: string | undefined; answered: number | null };
/** A mark of a tenant (its id, a name that only it has) seen in what another, or anybody, was shown. */
type Sighting = { of: string; by: string; where: string };
/** A good label as it came out of a printer, on the clock that the store goes by. */
export type Print = { station: string; link: string; at: number };
/** Of each node. */
type Bounds = { before: readonly Figures[]; after: readonly Figures[]; walMaxBytes: number };
/** A station at the end: what it still has to say, what it holds, what it counts. */
export type Line = {
  name: string;
  backlog: number;
  inHand: string[];
  quarantined: string[];
  sealedInLedger: number;
  sealedOnFloor: number;
  ledger: string;
};

export type History = Omit<Cluster, "jobs"> & {
  jobs: readonly Job[];
  calls: readonly Call[];
  asked: readonly Asked[];
  leases: readonly Lease[];
  deliveries: readonly Delivery[];
  arrivals: readonly Arrival[];
  allocated: { acknowledged: number; present: readonly string[] };
  /** Rows of the audit log by the request that made them. */
  audited: ReadonlyMap<string, number>;
  sightings: readonly Sighting[];
  bounds: Bounds;
  lines: readonly Line[];
  prints: readonly Print[];
};

const SCHEDULE_MS = [5_000, 30_000, 120_000, 900_000, 3_600_000, 14_400_000, 43_200_000];
const JITTER = 0.11;
const WRITTEN_MS = 10_000; // from the end of a try until the store has it, on a bad day
const PRINTING_MS = 8_000; // from the last look at the lease to the label, on a printer that had to be mended in between
const FDS_SLACK = 64; // connections that are kept alive or pooled, which there were none of before the work began
const MIB = 1_048_576;
// What V8 keeps of a warm cloud, flat for half an hour: a young generation of three times 32 MiB, a heap that grows to 2.5 times before it is collected.
const RSS_SLACK_BYTES = 256 * MIB;

const endOf = ({ history }: Pick<Job, "history">): JobState | undefined => history.at(-1)?.to;
const answers = ({ tries }: Call) => tries.filter(({ status }) => status !== null && status < 500 && status !== 429);
const isDone = (call: Call) => answers(call).some(({ status }) => status !== null && status < 300);
const twice = (values: readonly string[]) => values.filter((value, i) => values.indexOf(value) !== i);

/** I2, I8, I13: an answer is the same at every try, whether the first was heard or not; refusals are typed, and none is a fault of ours. */
function callFaults({ calls, asked }: History): string[] {
  const again = new Map(asked.map((one) => [one.key, one]));
  const known = new Set<string>(Object.keys(errors));
  return calls.flatMap((call) => {
    const { route, key } = call;
    const said = answers(call);
    const later = again.get(key);
    const digests = new Set([...said.map(({ digest }) => digest), ...(later && isDone(call) && call.isWrite ? [later.digest] : [])]);
    const refused = call.tries.filter(({ status }) => status !== null && status >= 400);
    return [
      ...(call.isWrite && digests.size > 1 ? [`I8: ${route} ${key} had ${digests.size} answers`] : []),
      ...(later && isDone(call) && call.isWrite && !later.replayed ? [`I8: ${route} ${key} was done again when it was asked again`] : []),
      ...(later && later.other !== null && later.other !== "IDEMPOTENCY_CONFLICT"
        ? [`I8: ${route} ${key} with another body was ${later.other}`]
        : []),
      ...refused.filter(({ code }) => code === null || !known.has(code)).map(({ status }) => `I13: ${route} answered an untyped ${status}`),
      ...refused.filter(({ code }) => code === "INTERNAL_ERROR").map(() => `I13: ${route} answered INTERNAL_ERROR`),
      ...(said.length === 0 ? [`I15: ${route} ${key} was never answered`] : []),
    ];
  });
}

/** I3: an attempt that wasn't said to have failed is followed by another only once the last lease that it was granted is over. */
function leaseFaults({ jobs, leases }: History): string[] {
  const until = new Map<string, number>();
  for (const { attemptId, until: at } of leases) until.set(attemptId, Math.max(at, until.get(attemptId) ?? 0));
  return jobs.flatMap(({ ref, history, at }) =>
    history.flatMap((event, i) => {
      const before = history[i - 1];
      const isTakenAway = event.to === "CLAIMED" && before !== undefined && !["QUEUED", "FAILED"].includes(before.to);
      const over = until.get(before?.attempt_id ?? "") ?? 0;
      return isTakenAway && (at[i] ?? 0) < over ? [`I3: ${ref} was granted ${over - (at[i] ?? 0)} ms before its lease was over`] : [];
    }),
  );
}

/** I4: no label is begun on a lease that is over, whatever the station's clock says: the job may be another's by then. */
function printFaults({ jobs, claims, leases, prints }: History): string[] {
  const of = Map.groupBy(jobs, ({ link }) => link);
  const until = Map.groupBy(leases, ({ attemptId }) => attemptId);
  return prints.flatMap(({ station, link, at }) => {
    const refs = new Set(of.get(link)?.map(({ ref }) => ref));
    const mine = claims.filter((claim) => claim.station === station && refs.has(claim.ref));
    const over = Math.max(...mine.flatMap(({ attemptId }) => until.get(attemptId)?.map((lease) => lease.until) ?? []));
    return at > over + PRINTING_MS ? [`I4: ${station} printed ${link} ${at - over} ms after its lease was over`] : [];
  });
}

/** I6: a job is sealed by a label of its own, which came out after it was claimed: an earlier one of the serial proves nothing. */
function sealFaults({ jobs, prints }: History): string[] {
  const of = Map.groupBy(prints, ({ link }) => link);
  return jobs.flatMap(({ ref, link, history, at }) => {
    const claimed = at[history.findIndex(({ to }) => to === "CLAIMED")] ?? Infinity;
    const sealed = at[history.findIndex(({ to }) => to === "SEALED")];
    if (sealed === undefined) return [];
    return of.get(link)?.some((print) => print.at >= claimed && print.at <= sealed)
      ? []
      : [`I6: ${ref} is sealed and no label of it came out for it`];
  });
}

/** I6, I7: the end of a job, its serial's outcome, its event, its place in the re-print file and its budget say the same. */
function outcomeFaults({ jobs }: History): string[] {
  const seals = Map.groupBy(
    jobs.filter((job) => endOf(job) === "SEALED"),
    ({ serial }) => serial,
  );
  return jobs.flatMap((job) => {
    const { ref, serial, print, commissioned, inReprintFile, maxAttempts, history } = job;
    const isDead = endOf(job) === "DEAD_LETTER";
    const isOdd = print !== undefined && inReprintFile !== isDead;
    const attempt = history.at(-1)?.attempt ?? 0;
    return [
      ...(commissioned === (seals.get(serial)?.length ?? 0)
        ? []
        : [`I6: ${ref} is ${endOf(job)} and was commissioned ${commissioned} times`]),
      ...(isOdd ? [`I6: ${ref} is ${endOf(job)} and ${inReprintFile ? "" : "not "}in the re-print file`] : []),
      ...(attempt > maxAttempts ? [`I7: ${ref} had ${attempt} attempts of ${maxAttempts}`] : []),
      ...(isDead && attempt < maxAttempts ? [`I7: ${ref} was given up after ${attempt} attempts of ${maxAttempts}`] : []),
      ...(endOf(job) === "FAILED" && attempt >= maxAttempts ? [`I7: ${ref} has used its budget up and isn't given up`] : []),
    ];
  });
}

/** From the beginning of a try: how long it took is in it. */
function isOnSchedule(ms: number, i: number): boolean {
  const wanted = SCHEDULE_MS[i] ?? Number.NaN;
  return ms >= wanted * (1 - JITTER) && ms <= wanted * (1 + JITTER) + limits.WEBHOOK_TRY_MAX_MS + WRITTEN_MS;
}

/** I10: what arrived is one delivery an event and the same bytes at every try, never after a 4xx, and tries keep to the schedule. */
function deliveryFaults({ deliveries, arrivals }: History): string[] {
  const of = Map.groupBy(arrivals, ({ deliveryId }) => deliveryId);
  const faults = deliveries.flatMap(({ id, eventId, type, status, attempts, byHand }) => {
    const came = of.get(id) ?? [];
    const refusedAt = attempts.findIndex((one) => one.status !== null && one.status >= 400 && one.status < 500);
    const early = attempts.filter(({ nextTryAt }, i) => {
      const next = attempts[i + 1];
      return nextTryAt !== null && next !== undefined && next.at < nextTryAt && !byHand;
    });
    const odd = attempts.filter(({ at, nextTryAt }, i) => nextTryAt !== null && !byHand && !isOnSchedule(nextTryAt - at, i));
    const isTaken = came.some(({ answered }) => answered !== null && answered < 300);
    return [
      ...(status === "delivered" && !isTaken ? [`I10: ${type} ${id} counts as delivered and never was`] : []),
      ...(status === "pending" ? [`I15: ${type} ${id} still waits`] : []),
      ...(status === "exhausted" || status === "held" ? [`I10: ${type} ${id} is ${status}`] : []),
      ...(refusedAt >= 0 && refusedAt < attempts.length - 1 && !byHand ? [`I10: ${type} ${id} was sent again after a 4xx`] : []),
      ...early.map(() => `I10: ${type} ${id} was tried before its time`),
      ...odd.map(({ at, nextTryAt }) => `I10: ${type} ${id} was to be tried again after ${(nextTryAt ?? 0) - at} ms`),
      ...(came.some((one) => one.eventId !== eventId) ? [`I10: ${type} ${id} came with another event's id`] : []),
      ...(new Set(came.map(({ body }) => body)).size > 1 ? [`I10: ${type} ${id} came with two bodies`] : []),
    ];
  });
  const known = new Set(deliveries.map(({ id }) => id));
  return [
    ...faults,
    ...arrivals.filter(({ deliveryId }) => !known.has(deliveryId)).map(({ deliveryId }) => `I10: ${deliveryId} came and isn't on record`),
    ...arrivals.flatMap(({ deliveryId, fault }) => (fault === undefined ? [] : [`I11: ${deliveryId}: ${fault}`])),
  ];
}

/** I9: each write that was done is in the audit log once, under its request's id, however often it was tried. */
const auditFaults = ({ calls, audited }: History): string[] =>
  calls
    .filter((call) => call.isWrite && isDone(call) && audited.get(call.requestId) !== 1)
    .map(({ route, requestId }) => `I9: ${route} ${requestId} is audited ${audited.get(requestId) ?? 0} times`);

const sightingFaults = ({ sightings }: History): string[] =>
  sightings.filter(({ of, by }) => of !== by).map(({ of, by, where }) => `I12: something of ${of} was shown to ${by} in ${where}`);

function boundFaults({ bounds: { before, after, walMaxBytes } }: History): string[] {
  return after.flatMap((now, n) => {
    const then = before[n] ?? now;
    const told = [
      ...(now.fds > then.fds + FDS_SLACK ? [`${now.fds} files are open, and ${then.fds} were`] : []),
      ...(now.queued > 0 ? [`${now.queued} units still wait for the store`] : []),
      ...(now.rssBytes > then.rssBytes + RSS_SLACK_BYTES
        ? [`${Math.round(now.rssBytes / MIB)} MiB are held, and ${Math.round(then.rssBytes / MIB)} were`]
        : []),
      ...(Math.max(then.walBytes, now.walBytes) > walMaxBytes ? [`the WAL has ${now.walBytes} bytes`] : []),
    ];
    return told.map((fault) => `I14: node ${n + 1}: ${fault}`);
  });
}

/** I15: healed, everything comes to its end; and what stations hold, count and have to say agrees with it. */
function lineFaults({ jobs, lines, paper }: History): string[] {
  const sealed = new Set(jobs.filter((job) => endOf(job) === "SEALED").map(({ link }) => link));
  return [
    ...jobs.filter((job) => !hasEnded(endOf(job) ?? "QUEUED")).map((job) => `I15: ${job.ref} is still ${endOf(job)}`),
    ...lines.filter(({ backlog }) => backlog > 0).map(({ name, backlog }) => `I15: ${name} still has ${backlog} reports to say`),
    ...lines.flatMap(({ name, inHand }) => inHand.map((what) => `I15: ${name} still has in hand: ${what}`)),
    ...lines.flatMap(({ name, quarantined }) => quarantined.map((what) => `I1: ${name} had to set aside: ${what}`)),
    ...lines
      .filter(({ sealedInLedger, sealedOnFloor }) => sealedInLedger !== sealedOnFloor)
      .map((line) => `I6: ${line.name} counts ${line.sealedInLedger} sealed labels, and ${line.sealedOnFloor} lie there; ${line.ledger}`),
    ...paper.filter((link) => !sealed.has(link)).map((link) => `I6: a label of ${link} lies there and its job isn't sealed`),
  ];
}

const serialFaults = ({ allocated: { acknowledged, present } }: History): string[] => [
  ...(present.length === acknowledged ? [] : [`I16: ${acknowledged} serials were asked for, and there are ${present.length}`]),
  ...twice(present).map((serial) => `I16: the serial ${serial} was given twice`),
];

/** Every invariant that doesn't hold, as a sentence. */
export const brokenHistory = (history: History): string[] => [
  ...brokenCluster(history),
  ...callFaults(history),
  ...leaseFaults(history),
  ...printFaults(history),
  ...sealFaults(history),
  ...outcomeFaults(history),
  ...deliveryFaults(history),
  ...auditFaults(history),
  ...sightingFaults(history),
  ...boundFaults(history),
  ...lineFaults(history),
  ...serialFaults(history),
];
