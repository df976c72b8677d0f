// Regulation packs: law as data, one file a version, never edited in place. Which one counts depends on the instant and the jurisdiction.
import { readdirSync, readFileSync } from "node:fs";
import { digestOf } from "#shared/canonical.ts";
import { type PackState, priorities, type Priority, type Sector } from "#shared/compliance.ts";
import { invalid } from "#shared/errors.ts";
import { endOf, HOME, startOf } from "./catalogue.ts";
import { PackFile } from "./pack-file.ts";
import { type Rule, rulesOf } from "./pack-rule.ts";
import { judgeOf } from "./validate.ts";

export type Pack = Omit<PackFile, "rules" | "$defs"> & { file: string; digest: string; rules: Rule[] };
type Asked = { jurisdiction: string; category?: string; lifecycleStage?: string; minimum: Priority };
export type Packs = {
  all: readonly Pack[];
  stateOf(pack: Pack, at: number): PackState;
  /** The one that judges a sector at an instant. */
  ofSector(sector: Sector, at: number): Pack | undefined;
  /** Those in effect that fit each filter that was given. */
  select(asked: Asked, at: number): Pack[];
};

const folder = new URL("./catalogue/packs/", import.meta.url);
const LOCK = "digests.json";

const numbersOf = ({ version }: Pack) => version.split(".").map(Number);
function newer(a: Pack, b: Pack): number {
  const [theirs, ours] = [numbersOf(b), numbersOf(a)];
  return ours.map((number, i) => number - (theirs[i] ?? 0)).find((difference) => difference !== 0) ?? 0;
}

function jsonIn(name: string, from: URL): unknown {
  try {
    return JSON.parse(readFileSync(new URL(name, from), "utf8"));
  } catch (error) {
    throw new Error(`${name === LOCK ? `${LOCK} of the regulation packs` : "it"} can't be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** What is wrong with the shape of a pack's file, each with its place. */
export const packFaults = judgeOf(PackFile);

/**
 * A file whose digest is in the committed list was judged when it was released, by the tests; that spares each start 60 ms and 10 MB.
 * Any other is judged here, so that a broken one is told where, and an edited one that it can't be.
 */
function refuseUnreleased(name: string, json: unknown, digest: string, lock: Record<string, unknown>): void {
  if (lock[name] === digest) return;
  const faults = packFaults(json);
  if (faults.length > 0) throw new Error(invalid(faults).message);
  rulesOf((json as PackFile).rules, (json as PackFile).$defs);
  throw new Error(
    name in lock
      ? `it was changed after it was released: give the change a new version (${LOCK} says ${String(lock[name])}, it is ${digest})`
      : `${LOCK} doesn't have it yet: add "${name}": "${digest}"`,
  );
}

function packIn(name: string, from: URL, lock: Record<string, unknown>): Pack {
  const json = jsonIn(name, from);
  const digest = digestOf(json);
  refuseUnreleased(name, json, digest, lock);
  const { rules, $defs, ...file } = json as PackFile;
  if (name !== `${file.celexId}-${file.version}.json`) throw new Error(`it says that it is ${file.celexId} ${file.version}`);
  const twice = rules.find(({ obligationId }, i) => rules.findIndex((other) => other.obligationId === obligationId) < i);
  if (twice) throw new Error(`${twice.obligationId} is there twice`);
  const pack: Pack = { ...file, file: name, digest, rules: rulesOf(rules, $defs) };
  if (pack.effectiveFrom !== null && !(startOf(pack) < endOf(pack))) throw new Error("it ends before it begins");
  return pack;
}

/** Throws where the files can't all be true, and says which and where. */
export function loadPacks(from: URL = folder): Packs {
  const lock = jsonIn(LOCK, from) as Record<string, unknown>;
  const names = readdirSync(from).filter((name) => name.endsWith(".json") && name !== LOCK);
  const gone = Object.keys(lock).find((name) => !names.includes(name));
  if (gone !== undefined) throw new Error(`regulation pack ${gone} was released and is gone: put it back, superseded ones are kept`);
  const all = names.toSorted().map((name) => {
    try {
      return packIn(name, from, lock);
    } catch (error) {
      throw new Error(`regulation pack ${name}: ${(error as Error).message}`, { cause: error });
    }
  });
  refuseAtOdds(all);
  return packsOf(all);
}

/** A higher version takes effect later, and a sector has one law at a time. */
function refuseAtOdds(all: Pack[]): void {
  for (const one of all)
    for (const other of all) {
      if (one === other || one.jurisdiction !== other.jurisdiction) continue;
      const same = one.celexId === other.celexId;
      if (same && newer(other, one) > 0 && one.effectiveFrom !== null && startOf(other) <= startOf(one))
        throw new Error(`regulation pack ${other.file}: it is newer than ${one.version} and has to take effect later`);
      const sector = one.sectors.find((name) => other.sectors.includes(name));
      if (!same && sector && startOf(one) < endOf(other) && startOf(other) < endOf(one))
        throw new Error(`regulation pack ${other.file}: ${one.file} judges the sector ${sector} at the same time`);
    }
}

function packsOf(all: readonly Pack[]): Packs {
  const stateOf: Packs["stateOf"] = (pack, at) => {
    if (at < startOf(pack)) return "draft";
    const overtaken = all.some((other) => other.celexId === pack.celexId && newer(other, pack) > 0 && startOf(other) <= at);
    return overtaken || at >= endOf(pack) ? "superseded" : "effective";
  };
  const ofSector: Packs["ofSector"] = (sector, at) =>
    all.find((pack) => pack.sectors.includes(sector) && pack.jurisdiction === HOME && stateOf(pack, at) === "effective");
  const select: Packs["select"] = ({ jurisdiction, category, lifecycleStage, minimum }, at) =>
    all.filter(
      (pack) =>
        stateOf(pack, at) === "effective" &&
        pack.jurisdiction === jurisdiction &&
        (category === undefined || pack.categories === null || pack.categories.includes(category)) &&
        (lifecycleStage === undefined || (pack.lifecycleStages as string[]).includes(lifecycleStage)) &&
        priorities.indexOf(pack.priority) >= priorities.indexOf(minimum),
    );
  return { all, stateOf, ofSector, select };
}
