// What is said of a Zebra: how far its word can be believed, what it can't show, and what became of one label, with the evidence.
import { saying } from "#shared/sayings.ts";
import type { Grade } from "#shared/states.ts";
import {
  type Capabilities,
  type Completion,
  type CompletionEvidence,
  type Counters,
  type Fault,
  NO_COUNTERS,
  identityOf,
  type Outcome,
  type Profile,
  SCAN_ONLY,
  UNCOUNTED,
  type Submission,
} from "./driver.ts";
import { resolutionIn } from "./zpl-answers.ts";

/** `twoWay`: it answers at all. `counter`: it tells how many labels it printed. `fenceSeen`: it has answered in order, behind a label. */
type Seen = { model: string | undefined; unit: string | undefined; twoWay: boolean; counter: boolean; status: boolean; fenceSeen: boolean };

export function capabilitiesOf(profile: Profile, { model, unit, twoWay, counter, status, fenceSeen }: Seen): Capabilities {
  const dpi = resolutionIn(model);
  const warnings = [
    ...(dpi && dpi !== profile.dpi ? [saying("wrong_dpi", { dpi, set: profile.dpi })] : []),
    ...(profile.rfid && !twoWay ? [saying("tags_untold")] : []),
  ];
  const rfid = profile.rfid ? (twoWay ? "write+readback" : "write") : "none";
  return {
    driver: "zpl",
    identity: model === undefined ? null : identityOf(model, unit),
    fence: twoWay ? "zpl-hv" : "none",
    status,
    counter,
    rfid,
    provenance: {
      identity: "assumed", // clones answer with the name of what they imitate
      fence: fenceSeen ? "probed" : profile.rfid ? "documented" : "assumed",
      status: status ? "probed" : "assumed",
      counter: "probed",
      rfid: "assumed",
    },
    ceiling: counter ? "A" : twoWay ? "B" : "E",
    cannotDetect: [
      SCAN_ONLY,
      "a head element that died since the printer last tested its head",
      "that somebody else cancelled this label and printed one of his own in the same moment",
      ...(counter
        ? ["a counter that was reset while the label was printing"]
        : [UNCOUNTED, ...(twoWay ? ["a label that it answered for and then didn't print: it has no label counter"] : [])]),
      ...(profile.rfid
        ? ["an EPC in the tag of the neighbouring label: the printer writes and reads the same wrong tag and agrees with itself"]
        : []),
      ...(twoWay ? [] : ["anything at all: it never answers"]),
    ],
    ...(warnings.length > 0 ? { warnings } : {}),
    simulated: profile.simulated ?? false,
  };
}

type More = {
  grade: Grade;
  after: Counters;
  voids: number;
  toDestroy: number | null;
  faults: Fault[];
  answered: Partial<CompletionEvidence>;
};
export const verdictsOf = ({ simulated }: Profile) =>
  function verdict(
    { token, before }: Pick<Submission, "token" | "before">,
    outcome: Outcome,
    reason: string,
    more: Partial<More> = {},
  ): Completion {
    const { grade = "E", after = NO_COUNTERS, voids = 0, toDestroy = 0, faults = [], answered = {} } = more;
    const evidence: CompletionEvidence = {
      basis: grade === "A" ? "zpl-hv+odometer" : grade === "B" ? "zpl-hv" : "none",
      grade,
      token,
      ...(before.labels === null ? {} : { before: before.labels }),
      ...(after.labels === null ? {} : { after: after.labels }),
      ...(voids > 0 ? { voids } : {}),
      ...answered,
      ...(simulated ? { simulated: true } : {}),
    };
    return { outcome, reason, faults, toDestroy, evidence };
  };
