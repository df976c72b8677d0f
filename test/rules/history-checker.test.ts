// The checker of histories, checked: a good history passes, and every lie about it is caught, by the invariant that it breaks.
import { describe, expect, test } from "vitest";
import { createHash } from "node:crypto";
import { jobPath, type JobState } from "#shared/states.ts";
import type { Call } from "../../fixtures/chaos/clients.ts";
import { type Arrival, brokenHistory, type Delivery, type History, type Job } from "../history-checker.ts";

const AT = 1_795_000_000_000;
const STEP_MS = 1_000;
const leafHash = (text: string) =>
  createHash("sha256")
    .update(Buffer.concat([Buffer.from([0]), Buffer.from(text)]))
    .digest("hex");
const nodeHash = (left: string, right: string) =>
  createHash("sha256")
    .update(Buffer.concat([Buffer.from([1]), Buffer.from(left, "hex"), Buffer.from(right, "hex")]))
    .digest("hex");

type Moment = Job["history"][number];
/** The first attempt's lease runs out, the second is sealed, or fails for the last time. */
function job(n: number, end: "SEALED" | "DEAD_LETTER"): Job {
  const first = `a${n}-1`;
  const second = `a${n}-2`;
  const path = end === "SEALED" ? jobPath.slice(2) : (["RENDERED", "FAILED"] as const);
  const steps: [JobState, string | null, number, string][] = [
    ["QUEUED", null, 0, "issuer"],
    ["CLAIMED", first, 1, "device"],
    ["RENDERED", first, 1, "device"],
    ["CLAIMED", second, 2, "device"],
    ...path.map((to): [JobState, string | null, number, string] => [to, second, 2, "device"]),
    ...(end === "DEAD_LETTER" ? [["DEAD_LETTER", second, 2, "system"] as [JobState, string, number, string]] : []),
  ];
  const history = steps.map(([to, attempt_id, attempt, kind], i): Moment => ({
    from: steps[i - 1]?.[0] ?? null,
    to,
    attempt_id,
    attempt,
    actor: { kind },
  }));
  const answered = history.flatMap(({ to, attempt_id, actor }) =>
    attempt_id !== null && to !== "CLAIMED" && actor.kind === "device" ? [{ attempt_id, status: to, moved: true }] : [],
  );
  return {
    ref: `pj_${n}`,
    serial: `s${n}`,
    link: `http://labels.example/s${n}`,
    history,
    at: history.map((_, i) => AT + i * STEP_MS),
    answered,
    print: end === "SEALED" ? "printed" : "failed",
    maxAttempts: end === "SEALED" ? 3 : 2,
    commissioned: end === "SEALED" ? 1 : 0,
    inReprintFile: end === "DEAD_LETTER",
  };
}
const call = (n: number, tries: Partial<Call["tries"][number]>[] = [{}]): Call => ({
  tenant: "A",
  route: "POST /api/v2/carriers/batch",
  key: `key-${n}`,
  requestId: `request-${n}`,
  isWrite: true,
  tries: tries.map((one, i) => ({ at: i, endAt: i + 1, status: 201, code: null, digest: `d${n}`, replayed: i > 0, ...one })),
});
const delivery = (n: number, more: Partial<Delivery> = {}): Delivery => ({
  id: `d${n}`,
  eventId: `e${n}`,
  type: "print.confirmed",
  status: "delivered",
  attempts: [
    { at: AT, status: 503, nextTryAt: AT + 5_000 },
    { at: AT + 5_100, status: 204, nextTryAt: null },
  ],
  byHand: false,
  ...more,
});
const arrivals = (n: number, answers: (number | null)[] = [503, 204]): Arrival[] =>
  answers.map((answered) => ({ deliveryId: `d${n}`, eventId: `e${n}`, body: `{"id":"e${n}"}`, fault: undefined, answered }));

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] extends readonly (infer Item)[] ? Item[] : T[Name] };
type Truth = Mutable<History>;
function good(): Truth {
  const jobs = [job(1, "SEALED"), job(2, "SEALED"), job(3, "DEAD_LETTER")];
  const leaves = ["one", "two"].map(leafHash);
  const [left = "", right = ""] = leaves;
  const root = nodeHash(left, right);
  const figures = { rssBytes: 200_000_000, heapBytes: 60_000_000, fds: 40, walBytes: 1_000_000, queued: 0 };
  return {
    jobs,
    claims: jobs.flatMap(({ ref }, i) => [1, 2].map((attempt) => ({ station: "A 1", ref, attemptId: `a${i + 1}-${attempt}` }))),
    paper: jobs.slice(0, 2).map(({ link }) => link),
    acknowledged: ["pj_1", "p1"],
    present: new Set(["pj_1", "pj_2", "pj_3", "p1"]),
    delivered: [1, 2].map((n) => ({ deliveryId: `d${n}`, eventId: `e${n}`, ref: `pj_${n}` })),
    chainsHold: true,
    growths: [{ from: { size: 1, root: left }, to: { size: 2, root }, proof: [right] }],
    leaves: [
      { ref: "pj_1", index: 0, size: 2, leaf: left, root, proof: [right] },
      { ref: "pj_2", index: 1, size: 2, leaf: right, root, proof: [left] },
    ],
    calls: [call(1), call(2, [{ status: null, digest: "" }, { status: 503, code: "STORE_UNAVAILABLE", digest: "x" }, {}])],
    asked: [{ key: "key-2", digest: "d2", replayed: true, other: "IDEMPOTENCY_CONFLICT" }],
    leases: ["a1-1", "a2-1"].map((attemptId) => ({ attemptId, until: AT + 3 * STEP_MS })),
    deliveries: [
      delivery(1),
      delivery(2, { attempts: [{ at: AT, status: 204, nextTryAt: null }] }),
      delivery(3, { type: "print.failed", status: "failed", attempts: [{ at: AT, status: 400, nextTryAt: null }] }),
    ],
    arrivals: [...arrivals(1), ...arrivals(2, [204]), ...arrivals(3, [400])],
    allocated: { acknowledged: 3, present: ["s1", "s2", "s3"] },
    audited: new Map([
      ["request-1", 1],
      ["request-2", 1],
    ]),
    sightings: [],
    bounds: { before: [figures, figures], after: [{ ...figures }, { ...figures }], walMaxBytes: 64 * 1_048_576 },
    lines: [{ name: "A 1", backlog: 0, inHand: [], quarantined: [], sealedInLedger: 2, sealedOnFloor: 2, ledger: "" }],
    prints: [1, 2].map((n) => ({ station: "A 1", link: `http://labels.example/s${n}`, at: AT + 6 * STEP_MS })),
  };
}
/** The first serial's label was worn: another job was sealed a while later, by a label of its own. */
function reprint(truth: Truth, { at = AT + 106 * STEP_MS, commissioned = 2 } = {}): Truth {
  const [worn] = truth.jobs;
  const again = job(9, "SEALED");
  if (!worn) throw new Error("there is nothing to replace");
  const { serial, link } = worn;
  truth.jobs[0] = { ...worn, commissioned, print: undefined };
  const later = again.at.map((moment) => moment + 100 * STEP_MS);
  truth.jobs.push({ ...again, serial, link, commissioned, at: later, reprint: true });
  const [before = "", leaf] = [truth.leaves[0]?.root, leafHash("three")];
  truth.leaves.push({ ref: again.ref, index: 2, size: 3, leaf, root: nodeHash(before, leaf), proof: [before] });
  truth.prints.push({ station: "A 1", link, at });
  truth.claims.push(...[1, 2].map((attempt) => ({ station: "A 1", ref: again.ref, attemptId: `a9-${attempt}` })));
  truth.leases.push({ attemptId: "a9-2", until: AT + 200 * STEP_MS });
  truth.delivered.push({ deliveryId: "d9", eventId: "e9", ref: again.ref });
  truth.deliveries.push(delivery(9, { attempts: [{ at: AT, status: 204, nextTryAt: null }] }));
  truth.arrivals.push(...arrivals(9, [204]));
  return truth;
}
/** Each about one thing that was true. */
const lies: Record<string, [by: RegExp, lie: (truth: Truth) => unknown]> = {
  "an acknowledged write is gone": [/pj_1 was acknowledged and is gone/, ({ present }) => (present as Set<string>).delete("pj_1")],
  "an answer is nowhere on record": [/was answered and isn't on record once/, ({ jobs }) => jobs[0]?.history.splice(6, 1)],
  "an event that nobody was answered": [/nobody was answered so/, ({ jobs }) => jobs[0]?.answered.splice(1, 1)],
  "a call is never answered": [/^I15: .* was never answered/, ({ calls }) => calls.push(call(3, [{ status: null }]))],
  "a call's second answer is another": [/^I8: .* had 2 answers/, ({ calls }) => calls.push(call(2, [{}, { digest: "other" }]))],
  "asked again it is another": [/^I8: .* had 2 answers/, ({ asked }) => Object.assign(asked[0] ?? {}, { digest: "other" })],
  "asked again it is done again": [/^I8: .* was done again/, ({ asked }) => Object.assign(asked[0] ?? {}, { replayed: false })],
  "another body under the same key is done": [
    /^I8: .* with another body/,
    ({ asked }) => Object.assign(asked[0] ?? {}, { other: "NOT_FOUND" }),
  ],
  "a refusal without a code": [
    /^I13: .* untyped 502/,
    ({ calls }) => calls[1]?.tries.push({ at: 1, endAt: 2, status: 502, code: null, digest: "", replayed: false }),
  ],
  "a fault of ours": [
    /^I13: .* INTERNAL_ERROR/,
    ({ calls }) => Object.assign(calls[1]?.tries[1] ?? {}, { status: 500, code: "INTERNAL_ERROR" }),
  ],
  "an attempt of two stations": [
    /was given to two stations/,
    ({ claims }) => claims.push({ station: "A 2", ref: "pj_1", attemptId: "a1-2" }),
  ],
  "a claim that isn't on record": [
    /the claim ghost was answered/,
    ({ claims }) => claims.push({ station: "A 2", ref: "pj_1", attemptId: "ghost" }),
  ],
  "a grant before the lease was over": [
    /^I3: pj_1 was granted 1 ms/,
    ({ leases }) => leases.push({ attemptId: "a1-1", until: AT + 3 * STEP_MS + 1 }),
  ],
  "a label long after its lease": [
    /^I4: A 1 printed .* after its lease/,
    ({ prints }) => Object.assign(prints[0] ?? {}, { at: AT + 12 * STEP_MS }),
  ],
  "an attempt is reused": [/an attempt id is used twice/, ({ jobs }) => jobs[0]?.history.forEach((event) => (event.attempt_id &&= "a1-1"))],
  "an attempt number stands still": [
    /attempt 1 follows attempt 1/,
    ({ jobs }) => jobs[0]?.history.forEach((event) => (event.attempt &&= 1)),
  ],
  "a superseded attempt moves the job": [
    /on the word of another attempt/,
    ({ jobs }) => Object.assign(jobs[0]?.history[5] ?? {}, { attempt_id: "a1-1" }),
  ],
  "two events are swapped": [
    /begins in SPOOL_SUBMITTED, and the one before ended in RENDERED/,
    ({ jobs }) => jobs[0]?.history.splice(5, 2, ...(jobs[0]?.history.slice(5, 7).toReversed() ?? [])),
  ],
  "the system attests": [/system attested/, ({ jobs }) => Object.assign(jobs[0]?.history[6] ?? {}, { actor: { kind: "system" } })],
  "something follows the end": [
    /comes after the end/,
    ({ jobs }) => jobs[0]?.history.push({ from: "SEALED", to: "FAILED", attempt_id: "a1-2", attempt: 2, actor: { kind: "system" } }),
  ],
  "a seal without paper": [/is sealed and on 0 labels/, ({ paper }) => paper.shift()],
  "a serial on two labels": [/is sealed and on 2 labels/, ({ paper }) => paper.push(paper[0] ?? "")],
  "a label of a job that was given up": [/^I6: a label of .*s3 lies there/, ({ paper }) => paper.push("http://labels.example/s3")],
  "a seal without a label of its own": [/^I6: pj_2 is sealed and no label of it came out/, ({ prints }) => prints.pop()],
  "a reprint sealed by the worn label": [
    /^I6: pj_9 is sealed and no label of it came out/,
    (truth) => reprint(truth, { at: AT + 6 * STEP_MS }),
  ],
  "a reprint sealed by what came out later": [
    /^I6: pj_9 is sealed and no label of it came out/,
    (truth) => reprint(truth, { at: AT + 119 * STEP_MS }),
  ],
  "a reprint that is no other event": [/^I6: pj_1 is SEALED and was commissioned 1 times/, (truth) => reprint(truth, { commissioned: 1 })],
  "a seal without its outcome": [/the job is SEALED and the serial pending/, ({ jobs }) => Object.assign(jobs[0] ?? {}, { print: null })],
  "a seal without its event": [
    /^I6: pj_1 is SEALED and was commissioned 0/,
    ({ jobs }) => Object.assign(jobs[0] ?? {}, { commissioned: 0 }),
  ],
  "a seal with two events": [/^I6: pj_1 is SEALED and was commissioned 2/, ({ jobs }) => Object.assign(jobs[0] ?? {}, { commissioned: 2 })],
  "a dead letter outside the re-print file": [
    /^I6: pj_3 .* not in the re-print/,
    ({ jobs }) => Object.assign(jobs[2] ?? {}, { inReprintFile: false }),
  ],
  "a sealed serial in the re-print file": [
    /^I6: pj_1 .*in the re-print/,
    ({ jobs }) => Object.assign(jobs[0] ?? {}, { inReprintFile: true }),
  ],
  "more attempts than the budget": [/^I7: pj_1 had 2 attempts of 1/, ({ jobs }) => Object.assign(jobs[0] ?? {}, { maxAttempts: 1 })],
  "given up too soon": [/^I7: pj_3 was given up/, ({ jobs }) => Object.assign(jobs[2] ?? {}, { maxAttempts: 3 })],
  "a budget used up and no end": [/^I7: pj_3 has used its budget up/, ({ jobs }) => jobs[2]?.history.pop()],
  "a job that doesn't end": [/^I15: pj_1 is still SCAN_VERIFIED/, ({ jobs }) => jobs[0]?.history.pop()],
  "a write that isn't audited": [/^I9: .* audited 0 times/, ({ audited }) => (audited as Map<string, number>).delete("request-1")],
  "a write audited twice": [/^I9: .* audited 2 times/, ({ audited }) => (audited as Map<string, number>).set("request-2", 2)],
  "a broken audit chain": [/an audit chain is broken/, (truth) => Object.assign(truth, { chainsHold: false })],
  "a sealed label nobody was told of": [/is sealed and nobody was told/, ({ delivered }) => delivered.pop()],
  "a second delivery of an event": [
    /came in two deliveries/,
    ({ delivered }) => delivered.push({ deliveryId: "d9", eventId: "e1", ref: "pj_1" }),
  ],
  "a webhook told twice under a new id": [
    /was told of in two events/,
    ({ delivered }) => delivered.push({ deliveryId: "d9", eventId: "e9", ref: "pj_1" }),
  ],
  "a webhook of a label that isn't sealed": [
    /was told of and isn't sealed/,
    ({ delivered }) => delivered.push({ deliveryId: "d9", eventId: "e9", ref: "pj_3" }),
  ],
  "a delivery from nowhere": [/^I10: d7 came and isn't on record/, (truth) => truth.arrivals.push(...arrivals(7, [204]))],
  "delivered, and never taken": [
    /^I10: .* d2 counts as delivered/,
    (truth) => Object.assign(truth, { arrivals: truth.arrivals.filter(({ deliveryId }) => deliveryId !== "d2") }),
  ],
  "another body at the second try": [/^I10: .* d1 came with two bodies/, (truth) => Object.assign(truth.arrivals[1] ?? {}, { body: "{}" })],
  "another event's id": [/^I10: .* d1 came with another event/, (truth) => Object.assign(truth.arrivals[1] ?? {}, { eventId: "e2" })],
  "a try after a 4xx": [
    /^I10: .* d3 was sent again after a 4xx/,
    ({ deliveries }) => deliveries[2]?.attempts.push({ at: AT + 9_000, status: 204, nextTryAt: null }),
  ],
  "a try before its time": [
    /^I10: .* d1 was tried before/,
    ({ deliveries }) => Object.assign(deliveries[0]?.attempts[1] ?? {}, { at: AT + 4_000 }),
  ],
  "a schedule of its own": [
    /^I10: .* after 1000 ms/,
    ({ deliveries }) => Object.assign(deliveries[0]?.attempts[0] ?? {}, { nextTryAt: AT + 1_000 }),
  ],
  "a delivery that still waits": [/^I15: .* d1 still waits/, ({ deliveries }) => Object.assign(deliveries[0] ?? {}, { status: "pending" })],
  "a forged delivery": [
    /^I11: d1: the signature is wrong/,
    (truth) => Object.assign(truth.arrivals[0] ?? {}, { fault: "the signature is wrong" }),
  ],
  "a stranger sees a name": [
    /^I12: something of A was shown to B/,
    ({ sightings }) => sightings.push({ of: "A", by: "B", where: "GET /x" }),
  ],
  "files that nobody closes": [/^I14: node 2: 400 files/, ({ bounds }) => Object.assign(bounds.after[1] ?? {}, { fds: 400 })],
  "memory that nobody gives back": [
    /^I14: node 1: 954 MiB/,
    ({ bounds }) => Object.assign(bounds.after[0] ?? {}, { rssBytes: 1_000_000_000 }),
  ],
  "a WAL without end": [/^I14: node 1: the WAL/, ({ bounds }) => Object.assign(bounds.after[0] ?? {}, { walBytes: 65 * 1_048_576 })],
  "units that nobody does": [/^I14: node 2: 3 units/, ({ bounds }) => Object.assign(bounds.after[1] ?? {}, { queued: 3 })],
  "a report that nobody hears": [/^I15: A 1 still has 2 reports/, ({ lines }) => Object.assign(lines[0] ?? {}, { backlog: 2 })],
  "a label that is still asked for": [
    /^I15: A 1 still has in hand: pj_3, orphan/,
    ({ lines }) => lines[0]?.inHand.push("pj_3, orphan, asked destroy_earlier"),
  ],
  "a report set aside": [/^I1: A 1 had to set aside: X/, ({ lines }) => lines[0]?.quarantined.push("X")],
  "a ledger that counts otherwise": [/^I6: A 1 counts 3 sealed/, ({ lines }) => Object.assign(lines[0] ?? {}, { sealedInLedger: 3 })],
  "a serial given twice": [
    /^I16: the serial s1 was given twice/,
    ({ allocated }) => Object.assign(allocated, { present: ["s1", "s1", "s3"] }),
  ],
  "a serial too many": [
    /^I16: 3 serials were asked for/,
    ({ allocated }) => Object.assign(allocated, { present: ["s1", "s2", "s3", "s4"] }),
  ],
  "a leaf in another's place": [/isn't where the log says/, ({ leaves }) => Object.assign(leaves[0] ?? {}, { index: 1 })],
  "a log rewritten": [
    /isn't the beginning of/,
    ({ growths }) => Object.assign(growths[0] ?? {}, { from: { size: 1, root: "0".repeat(64) } }),
  ],
  "a seal that isn't in the log": [/is sealed and not in the log/, ({ leaves }) => leaves.pop()],
};

describe("the checker of histories", () => {
  test("believes a good one", () => {
    expect(brokenHistory(good())).toEqual([]);
  });

  test("believes that a worn label was replaced", () => {
    expect(brokenHistory(reprint(good()))).toEqual([]);
  });

  test.each(Object.entries(lies))("doesn't believe it when told of %s", (_what, [by, lie]) => {
    const truth = good();
    lie(truth);
    expect(brokenHistory(truth)).toContainEqual(expect.stringMatching(by));
  });
});
