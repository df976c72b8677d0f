// What has to be true of several nodes after whatever befell them, told from what clients were answered, what is on record and what lies on the floor.
// Pure, so that it can itself be tested with lies.
import { isConsistent, isIncluded } from "#shared/merkle.ts";
import { broken, type Record } from "./print-checker.ts";

export type Job = Record & {
  ref: string;
  serial: string;
  link: string;
  /** Another label of a serial that has one. */
  reprint?: boolean;
  /** Its label may have been destroyed to make room for a reprint that came to nothing. */
  mayBeGone?: boolean;
};
/** A claim that a station was answered. */
type Claimed = { station: string; ref: string; attemptId: string };
type Delivered = { deliveryId: string; eventId: string; ref: string };
export type Head = { size: number; root: string };
export type Growth = { from: Head; to: Head; proof: string[] };
export type Leaf = { ref: string; index: number; size: number; leaf: string; root: string; proof: string[] };

export type Cluster = {
  jobs: readonly Job[];
  claims: readonly Claimed[];
  /** What the good labels on all floors say. */
  paper: readonly string[];
  /** What was answered with success, and of it what is there. */
  acknowledged: readonly string[];
  present: ReadonlySet<string>;
  delivered: readonly Delivered[];
  chainsHold: boolean;
  growths: readonly Growth[];
  leaves: readonly Leaf[];
};

const times = (values: Iterable<string>): Map<string, number> => {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
};
const twice = (values: Iterable<string>) => [...times(values)].filter(([, count]) => count > 1).map(([value]) => value);
const bytes = (hex: string) => Buffer.from(hex, "hex");

/** No job is two stations' at a time: an attempt is one station's, and on record as claimed once. */
function claimFaults({ jobs, claims }: Cluster): string[] {
  const stations = Map.groupBy(claims, ({ attemptId }) => attemptId);
  const shared = [...stations].filter(([, of]) => new Set(of.map(({ station }) => station)).size > 1);
  const claimed = times(jobs.flatMap(({ history }) => history.flatMap(({ to, attempt_id: id }) => (to === "CLAIMED" && id ? [id] : []))));
  return [
    ...shared.map(([attemptId]) => `the attempt ${attemptId} was given to two stations`),
    ...[...stations.keys()].filter((id) => claimed.get(id) !== 1).map((id) => `the claim ${id} was answered and isn't on record once`),
  ];
}

/** Each sealed label was told of, under one event; whoever hears it again hears the same delivery. */
function webhookFaults({ jobs, delivered }: Cluster): string[] {
  const sealed = jobs.filter(({ history }) => history.at(-1)?.to === "SEALED").map(({ ref }) => ref);
  const pairs = (of: (one: Delivered) => string) => [...new Set(delivered.map(of))].map((pair) => pair.split(" ")[0] ?? "");
  const told = new Set(delivered.map(({ ref }) => ref));
  return [
    ...sealed.filter((ref) => !told.has(ref)).map((ref) => `${ref} is sealed and nobody was told`),
    ...[...told].filter((ref) => !sealed.includes(ref)).map((ref) => `${ref} was told of and isn't sealed`),
    ...twice(pairs(({ ref, eventId }) => `${ref} ${eventId}`)).map((ref) => `${ref} was told of in two events`),
    ...twice(pairs(({ eventId, deliveryId }) => `${eventId} ${deliveryId}`)).map((id) => `the event ${id} came in two deliveries`),
  ];
}

function logFaults({ jobs, growths, leaves }: Cluster): string[] {
  const grown = ({ from, to, proof }: Growth) => isConsistent(from.size, to.size, bytes(from.root), bytes(to.root), proof.map(bytes));
  const stands = ({ leaf, index, size, proof, root }: Leaf) => isIncluded(bytes(leaf), index, size, proof.map(bytes), bytes(root));
  const proven = new Set(leaves.map(({ ref }) => ref));
  const sealed = jobs.filter(({ history }) => history.at(-1)?.to === "SEALED");
  return [
    ...growths
      .filter((growth) => !grown(growth))
      .map(({ from, to }) => `the log of ${from.size} isn't the beginning of that of ${to.size}`),
    ...leaves.filter((leaf) => !stands(leaf)).map(({ ref }) => `${ref} isn't where the log says`),
    ...twice(leaves.map(({ index }) => String(index))).map((index) => `two labels stand at ${index} of the log`),
    ...sealed.filter(({ ref }) => !proven.has(ref)).map(({ ref }) => `${ref} is sealed and not in the log`),
  ];
}

/** Every invariant that doesn't hold, as a sentence. */
export function brokenCluster(cluster: Cluster): string[] {
  const { jobs, paper, acknowledged, present, chainsHold } = cluster;
  const onPaper = times(paper);
  return [
    ...jobs.flatMap((job) => broken(job).map((fault) => `${job.ref}: ${fault}`)),
    ...twice(jobs.flatMap(({ serial, reprint }) => (reprint ? [] : serial))).map((serial) => `the serial ${serial} was given twice`),
    ...jobs.flatMap(({ ref, history, link, print, mayBeGone }) => {
      const labels = onPaper.get(link) ?? 0;
      const isWrong = labels > 1 || (labels === 0 && !mayBeGone);
      return history.at(-1)?.to === "SEALED" && print !== undefined && isWrong ? [`${ref} is sealed and on ${labels} labels`] : [];
    }),
    ...acknowledged.filter((id) => !present.has(id)).map((id) => `${id} was acknowledged and is gone`),
    ...claimFaults(cluster),
    ...webhookFaults(cluster),
    ...logFaults(cluster),
    ...(chainsHold ? [] : ["an audit chain is broken"]),
  ];
}
