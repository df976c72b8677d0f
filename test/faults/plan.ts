// The plan of faults F1 to F20: what is done to the product, which test does it, and which control shows that the test can fail.

/** A test by its file below `test/` and a part of its title. */
type Proof = readonly [file: string, title: string];
export type Row = { fault: string; tests: readonly Proof[]; controls: readonly Proof[] };

export const plan: readonly Row[] = [
  {
    fault: "SIGKILL inside commits, checkpoints, migrations",
    tests: [
      ["faults/kill-inside.test.ts", "killed inside commits and inside the last checkpoint"],
      ["faults/kill-inside.test.ts", "killed inside any migration"],
      ["faults/kill-inside.test.ts", "killed inside checkpoints under load"],
      ["faults/kill.test.ts", "every answered write is there after each kill"],
    ],
    controls: [["faults/kill-inside.test.ts", "the control: a server that answers before the commit"]],
  },
  {
    fault: "power loss",
    tests: [
      ["faults/fsync.test.ts", "no 201 of the cloud leaves before its fsync"],
      ["faults/power-loss.test.ts", "whenever the power fails"],
      ["faults/power-loss.test.ts", "nor is anything lost while a thread works off the log"],
    ],
    controls: [
      ["faults/fsync.test.ts", "the control: with synchronous=NORMAL"],
      ["faults/power-loss.test.ts", "the control: with synchronous=NORMAL"],
    ],
  },
  {
    fault: "SIGKILL of a station at every step",
    tests: [["agent/station-kill.test.ts", "killed before and after port writes, commits and calls"]],
    controls: [["agent/station-schedules.test.ts", "the search finds a driver that takes bytes handed over for a label printed"]],
  },
  {
    fault: "races at the end of a lease",
    tests: [
      ["faults/lease-races.test.ts", "a millisecond before, at and after the end of a lease"],
      ["faults/lease-races.test.ts", "on PostgreSQL they may come all at once"],
    ],
    controls: [
      ["faults/lease-races.test.ts", "without the fence"],
      ["faults/lease-races.test.ts", "with a reaper that doesn't compare"],
    ],
  },
  {
    fault: "clocks set back, leaping, apart",
    tests: [
      ["faults/clock.test.ts", "set back by ten minutes, a lease is nobody else's"],
      ["faults/clock.test.ts", "after a leap ahead the job is another's"],
      ["faults/clock.test.ts", "an idempotency key holds for its day by that clock"],
      ["cloud/dispatch.test.ts", "a clock that is set back delays no first try"],
      ["agent/station-clock.test.ts", "a clock that is set back while labels are under way"],
    ],
    controls: [["faults/clock.test.ts", "the control: without a step of the clock"]],
  },
  {
    fault: "disk full, I/O errors",
    tests: [
      ["faults/disk.test.ts", "no room in the middle of commits"],
      ["faults/disk.test.ts", "that fails with EIO isn't answered well"],
      ["faults/disk.test.ts", "in the last checkpoint"],
      ["faults/disk.test.ts", "a sync that fails in the thread beside the writer"],
      ["faults/disk.test.ts", "a disk that is really full"],
      ["agent/station-disk.test.ts", "a full disk stops the claiming and loses nothing"],
    ],
    controls: [["faults/disk.test.ts", "the control: a server that answers before the commit says 201 to a full disk"]],
  },
  {
    fault: "a bad network",
    tests: [
      ["faults/chaos.test.ts", "whatever happens, no invariant breaks"],
      ["agent/station-uplink.test.ts", "every answer is lost once"],
      ["faults/slow.test.ts", "a request that never ends"],
      ["faults/many-nodes.test.ts", "whatever befalls them"],
    ],
    controls: [["faults/many-nodes.test.ts", "lies(truth)"]],
  },
  {
    fault: "lost replies",
    tests: [
      ["faults/lost-reply.test.ts", "an answer that is lost %i times"],
      ["faults/lost-reply.test.ts", "eight who ask at once"],
      ["faults/lost-reply.test.ts", "after a restart it is the same answer"],
      ["faults/lost-reply.test.ts", "after 23 hours and 59 minutes"],
    ],
    controls: [["faults/lost-reply.test.ts", "the control: without a key"]],
  },
  {
    fault: "traffic replayed, doubled, out of order",
    tests: [
      ["faults/replay.test.ts", "under the same keys every answer is byte for byte what it was"],
      ["faults/replay.test.ts", "reports that come again without a key move nothing"],
      ["faults/replay.test.ts", "one key twice in a batch"],
    ],
    controls: [["faults/replay.test.ts", "the control: under new keys"]],
  },
  {
    fault: "stampedes and idle polling",
    tests: [
      ["faults/stampede.test.ts", "sixty-four stations at one pool"],
      ["faults/stampede.test.ts", "a tenant that never stops asking"],
      ["faults/stampede.test.ts", "ten thousand stations with nothing to do"],
    ],
    controls: [["faults/stampede.test.ts", "the control: jobs that are looked at first and taken afterwards"]],
  },
  {
    fault: "receivers that misbehave",
    tests: [
      ["faults/receivers.test.ts", "of twelve receivers eleven misbehave"],
      ["faults/receivers.test.ts", "a thousand webhooks to a dead receiver"],
      ["faults/courier.test.ts", "one that sends a gigabyte is cut off"],
    ],
    controls: [["faults/receivers.test.ts", "the control: a courier that makes one try at a time"]],
  },
  {
    fault: "webhooks that lead inside",
    tests: [
      ["faults/courier.test.ts", "a name that leads inside is refused"],
      ["rules/address.test.ts", "what a resolver answers is judged"],
    ],
    controls: [["faults/courier.test.ts", "the control: a courier that may go inside"]],
  },
  {
    fault: "malicious input",
    tests: [
      ["cloud/fuzz.test.ts", "takes whatever its schema nearly allows"],
      ["cloud/smuggling.test.ts", "nothing but refusals"],
      ["rules/regexes.test.ts", "ends soon on whatever nearly fits it"],
      ["cloud/hostile.test.ts", "is refused with its code"],
    ],
    controls: [
      ["cloud/fuzz.test.ts", "the control: the same requests find a store that is damaged"],
      ["cloud/smuggling.test.ts", "the test would see it"],
      ["rules/regexes.test.ts", "a pattern that doesn't would be found"],
    ],
  },
  {
    fault: "every route by every credential",
    tests: [
      ["cloud/authz.test.ts", "no route but the public ones lets anybody in"],
      ["cloud/authz.test.ts", "a scope opens the routes that name it"],
      ["cloud/authz.test.ts", "answers another tenant's as what was never there, byte for byte"],
    ],
    controls: [["cloud/authz.test.ts", "the control: to its owner the same address is another answer"]],
  },
  {
    fault: "credentials that die under way",
    tests: [["faults/key-races.test.ts", "no call that begins after the answer is let in"]],
    controls: [["faults/key-races.test.ts", "the control: a key that dies where the cloud can't hear it"]],
  },
  {
    fault: "rolling restarts",
    tests: [
      ["faults/rolling.test.ts", "no request fails while nodes are replaced"],
      ["faults/rolling.test.ts", "behind the example's proxy"],
      ["faults/process.test.ts", "lets what was begun be answered, then ends with 0"],
    ],
    controls: [["faults/rolling.test.ts", "the control: a node that is killed instead"]],
  },
  {
    fault: "PostgreSQL: crash, killed connections, conflicts, failover, as others set it up",
    tests: [
      ["faults/postgres.test.ts", "a crash of PostgreSQL under load"],
      ["faults/postgres-faults.test.ts", "connections killed in the middle of anything"],
      ["faults/postgres-faults.test.ts", "are tried again inside"],
      ["faults/postgres-faults.test.ts", "the primary is lost for good"],
      ["faults/postgres-faults.test.ts", "leads to a replica for a while"],
      ["faults/postgres-of-others.test.ts", "labels are printed and found in a database"],
    ],
    controls: [
      ["faults/postgres-faults.test.ts", "the control: a fault that is no conflict"],
      ["faults/postgres-faults.test.ts", "the control: where the primary doesn't wait for its standby"],
    ],
  },
  {
    fault: "all of it at random, for long",
    tests: [
      ["faults/chaos.test.ts", "whatever happens, no invariant breaks"],
      ["faults/chaos-postgres.test.ts", "whatever happens, no invariant breaks"],
      ["faults/many-nodes.test.ts", "whatever befalls them"],
      ["cloud/print-model.test.ts", "schedules of stations, clocks and crashes agree with the model"],
    ],
    controls: [
      ["faults/many-nodes.test.ts", "lies(truth)"],
      ["cloud/print-model.test.ts", "catches every lie about it"],
    ],
  },
  {
    fault: "tampering with the audit log",
    tests: [
      ["faults/audit-tampering.test.ts", "one bit flipped anywhere in %s"],
      ["faults/audit-tampering.test.ts", "%s: found at row %i"],
      ["faults/audit-tampering.test.ts", "is seen by whoever kept an earlier head"],
    ],
    controls: [["faults/audit-tampering.test.ts", "left alone it verifies"]],
  },
  {
    fault: "backup and restore under load",
    tests: [
      ["faults/backup.test.ts", "restored, all that was answered before the backup is there"],
      ["faults/set-back.test.ts", "after restore --set-back no serial comes twice"],
    ],
    controls: [
      ["faults/backup.test.ts", "with a flipped bit in the database"],
      ["faults/set-back.test.ts", "The control: without it the same serials come again"],
    ],
  },
];
