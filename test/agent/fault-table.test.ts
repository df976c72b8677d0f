// The eighteen ways in which a print floor goes wrong, what the agent must show of each and never does, and where that is proven.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type BadDay, badDays } from "../../fixtures/network.ts";
import { type FaultName, faultTable } from "../../fixtures/printers/machine.ts";
import { LINE_FAULTS, type LineFault } from "../../fixtures/scanners/line.ts";

type Row = {
  fault: string;
  shows: string;
  never: string;
  /** Of the faults that station-schedules.test.ts draws. */
  drawn: { printer?: FaultName[]; scan?: LineFault[]; network?: BadDay[] };
  /** A test by its file and a part of its name. */
  tests: [file: string, name: string][];
};
const ROWS: Row[] = [
  {
    fault: "paper out before or in the middle of a label",
    shows: "blocked, media out; the lease is kept; it resumes once",
    never: "PRINTED_ATTESTED, a second copy",
    drawn: { printer: ["paper-out", "flags-faults"] },
    tests: [
      ["agent/station.test.ts", "out of paper in the middle of a label: its lease lives, and it comes out once"],
      ["agent/zpl.test.ts", "by firmware that falls silent and by firmware that doesn't"],
    ],
  },
  {
    fault: "head open, ribbon out, paused, over temperature",
    shows: "blocked, with the reason",
    never: "a bare time-out",
    drawn: { printer: ["head-open", "ribbon-out", "paused", "over-temperature"] },
    tests: [["agent/station.test.ts", "before a label: it says why, and prints once when it is mended"]],
  },
  {
    fault: "paper reloaded after the lease was lost",
    shows: "the label is taken out of the printer first, or found by the counter and asked about",
    never: "a silent duplicate",
    drawn: { printer: ["paper-out"] },
    tests: [
      ["agent/station.test.ts", "what waits too long is taken out of the printer before the job is given back"],
      ["agent/station.test.ts", "where the printer doesn't say that nothing waits in it, a person is asked"],
      ["agent/station-floor.test.ts", "that come out without a job of ours are counted"],
    ],
  },
  {
    fault: "a tag refuses once, or as often as is tried",
    shows: "void labels to destroy; FAILED when no tag took it",
    never: "success for want of an error",
    drawn: { printer: ["rfid-void", "voids-untold"] },
    tests: [["agent/station.test.ts", "when no tag takes it the attempt fails, once its void labels are destroyed"]],
  },
  {
    fault: "the EPC is wrong, or in the neighbour's inlay",
    shows: "a mismatch; the second only by an independent reader",
    never: "a claim to find what it can't",
    drawn: { printer: ["epc-shift", "neighbour-inlay"] },
    tests: [
      ["agent/station.test.ts", "a tag that reads back wrong is no good label"],
      ["agent/zpl.test.ts", "an EPC in the neighbour's tag looks right to the printer, and the station says that it can't see this"],
      ["agent/station-floor.test.ts", "an independent reader finds the neighbour's inlay"],
    ],
  },
  {
    fault: "reset, ended, half open or busy connections, a writer between",
    shows: "no byte out: sent again; one byte: unknown",
    never: "a reprint by itself",
    drawn: { printer: ["reset-at", "end-at", "stop-reading-at", "half-open", "busy", "foreign-writer"] },
    tests: [
      ["agent/station.test.ts", "where no byte left, the same attempt is sent again"],
      ["agent/station.test.ts", "it is asked, and never printed again by itself"],
    ],
  },
  {
    fault: "a slow reader that speaks unasked",
    shows: "the whole label, and its answer",
    never: "a cut label reported as good",
    drawn: { printer: ["slow-reader"] },
    tests: [["agent/escpos.test.ts", "real-time ones even inside an unasked status"]],
  },
  {
    fault: "the agent is killed at each step; the printer loses power",
    shows: "unknown at the next start",
    never: "a second print",
    drawn: { printer: ["power-off"] },
    tests: [["agent/station-kill.test.ts", "killed before and after port writes, commits and calls"]],
  },
  {
    fault: "the answer never comes, comes twice, early, or for an older label",
    shows: "unknown; echoes are ignored",
    never: "an attestation",
    drawn: { printer: ["fence-never", "fence-twice", "fence-older", "fence-early", "dont-answer"] },
    tests: [["agent/zpl.test.ts", "an answer before anything was printed isn't believed"]],
  },
  {
    fault: "scans that are wrong, doubled, replayed, cut, run together, junk, of another symbology or keyboard",
    shows: "a mismatch, in words",
    never: "a state gained",
    drawn: { scan: LINE_FAULTS.filter((name) => name !== "none") },
    tests: [["agent/scanners.test.ts", "of all these faults none moves a job that it shouldn't"]],
  },
  {
    fault: "a serial line unplugged when idle, writing or in the middle of a line",
    shows: "it connects again; half a line is dropped",
    never: "a write that hangs",
    drawn: { scan: ["cut"] },
    tests: [
      ["agent/scanners.test.ts", "a half line is lost with the cable, and a replugged one goes on"],
      ["agent/port.test.ts", "unplugged while writing: the write ends with a count and a reason"],
    ],
  },
  {
    fault: "a camera's blur, glare, tilt, VOID, mirror, neighbours, and the old label still there",
    shows: "what can be told of the symbol; two in view are refused",
    never: "the wrong label verified",
    drawn: {},
    tests: [
      ["agent/station.test.ts", "a camera's view that is %s verifies nothing"],
      ["agent/scanners.test.ts", "the old label that still lies there doesn't move the next attempt"],
    ],
  },
  {
    fault: "a print queue that completes what it never printed, holds, refuses, restarts",
    shows: "grade D at best",
    never: "PRINTED_ATTESTED by the device",
    drawn: {},
    tests: [
      ["agent/station.test.ts", "a print queue never attests: an operator is asked"],
      ["agent/ipp-cups.test.ts", "CUPS calls it completed, and that attests nothing"],
    ],
  },
  {
    fault: "a symbol or text that doesn't fit, a drifting error correction, a template of another make",
    shows: "LABEL_REFUSED before RENDERED",
    never: "a print of it",
    drawn: {},
    tests: [
      ["agent/label.test.ts", "with a link that makes the symbol too large is refused"],
      ["agent/label.test.ts", "keeps the error correction that its template asks for"],
      ["agent/station-floor.test.ts", "one that doesn't fit isn't printed: the attempt fails with the reason"],
    ],
  },
  {
    fault: "an EPC of another item, a serial with a leading zero or too large, a bad check digit",
    shows: "a refusal before the print",
    never: "an encoding of it",
    drawn: {},
    tests: [
      ["agent/rfid.test.ts", "only the EPC of the very item is ever taken"],
      ["agent/rfid.test.ts", "a serial with a leading zero has no EPC"],
    ],
  },
  {
    fault: "the cloud refuses, is busy, broken, gone for hours, or its answer is lost",
    shows: "order per job, one effect per report, a quarantine",
    never: "a reprint because a report failed",
    drawn: { network: ["lossy", "cut", "busy", "down", "stumbling", "behindStrangers"] },
    tests: [
      ["agent/station-uplink.test.ts", "every answer is lost once, and every report is on record once"],
      ["agent/station-uplink.test.ts", "a job that went on without us leaves an orphan"],
      ["agent/station-uplink.test.ts", "what was claimed is printed and sealed here; the burst afterwards is heard in order, once"],
    ],
  },
  {
    fault: "a dead head element, print gain, drift",
    shows: "a symbol check by column",
    never: "an ISO grade",
    drawn: { printer: ["dead-element", "print-gain", "drift"] },
    tests: [
      ["agent/decode.test.ts", "a dead head element three dots wide is found in its column"],
      ["agent/decode.test.ts", "nowhere is it called a grade"],
    ],
  },
  {
    fault: "a label not taken, a jam, a counter that is reset or missing",
    shows: "it waits, or doesn't know",
    never: "a negative count",
    drawn: { printer: ["not-taken", "jam", "odometer-reset", "no-counter"] },
    tests: [["agent/zpl.test.ts", "a counter that service set back makes the outcome unknown, not a negative number of labels"]],
  },
];

const read = (file: string) => readFileSync(join(import.meta.dirname, "..", file), "utf8");

test.for(ROWS.map((row, i): [number, string, Row] => [i + 1, row.fault, row]))("row %i, %s, has its proofs", ([, , { tests }]) => {
  for (const [file, name] of tests) expect([file, read(file)]).toEqual([file, expect.stringContaining(name)]);
});

test("there are eighteen rows, and every fault that can be drawn belongs to one", () => {
  expect(ROWS).toHaveLength(18);
  const drawn = ROWS.flatMap(({ drawn: { printer = [], scan = [], network = [] } }) => [...printer, ...scan, ...network]);
  const all = [...Object.keys(faultTable), ...LINE_FAULTS, ...Object.keys(badDays)].filter((name) => name !== "none" && name !== "well");
  expect(new Set<string>(drawn)).toEqual(new Set(all));
});
