// Regulations as they are listed, selected and kept: which pack counts, and which is never asked to judge.
import { jurisdictionOf, lifecycleStages, type Sector, sectorNames } from "#shared/compliance.ts";
import { Refusal } from "#shared/errors.ts";
import type { PackEntry, RegulationSelect } from "#shared/wire/compliance.ts";
import { catalogue } from "../catalogue.ts";
import type { Pack, Packs } from "../packs.ts";
import { and, eq } from "../store/drizzle.ts";
import { regulationPacks } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { instant } from "./instant.ts";
import { pageFrom, type PageQuery } from "./page.ts";

/** A pack that this database has seen stays what it was, on every node: the first to start says what that is. */
export async function keep(tx: Tx, { all }: Packs): Promise<void> {
  for (const { celexId, version, digest, file } of all) {
    const made = await tx.db
      .insert(regulationPacks)
      .values({ celexId, version, digest, seenAt: tx.now })
      .onConflictDoNothing()
      .returning({ digest: regulationPacks.digest });
    if (made.length > 0) continue;
    const isIt = and(eq(regulationPacks.celexId, celexId), eq(regulationPacks.version, version));
    const [known] = await tx.db.select({ digest: regulationPacks.digest }).from(regulationPacks).where(isIt);
    if (known?.digest !== digest)
      throw new Error(`regulation pack ${file}: it isn't what this database knows as ${celexId} ${version}: give the change a new version`);
  }
}

function shown(packs: Packs, pack: Pack, at: number): PackEntry {
  const { rules, file: _file, ...entry } = pack;
  return { ...entry, status: packs.stateOf(pack, at), obligations: rules.length };
}

export const list = (packs: Packs, at: number, query: PageQuery) =>
  pageFrom(
    packs.all.map((pack) => shown(packs, pack, at)),
    query,
    ({ celexId, version }) => `${celexId} ${version}`,
  );

/** A category or stage that nobody knows narrows nothing: rather a law too many than one too few. */
export function select(packs: Packs, { context, minimumPriorityLevel: minimum }: RegulationSelect) {
  const { region, productCategory: category, lifecycleStage, effectiveDate } = context;
  const known = {
    productCategory: catalogue.all.some((entry) => entry.category === category),
    lifecycleStage: (lifecycleStages as readonly string[]).includes(lifecycleStage),
  };
  const at = Date.parse(effectiveDate);
  const asked = {
    minimum,
    jurisdiction: jurisdictionOf(region) ?? region,
    ...(known.productCategory ? { category } : {}),
    ...(known.lifecycleStage ? { lifecycleStage } : {}),
  };
  const unrecognised = Object.entries(known).flatMap(([field, is]) => (is ? [] : [field]));
  return { data: packs.select(asked, at).map((pack) => shown(packs, pack, at)), unrecognised };
}

export function sectorOf(name: string): Sector {
  const found = sectorNames.find((sector) => sector === name);
  if (found) return found;
  throw new Refusal("NOT_FOUND", `there is no sector "${name}"; there are ${sectorNames.join(", ")}`, { availableSectors: sectorNames });
}

/** A refusal to judge is told before anything is looked at: of a sector, and of every product that a quarantined pack is about. */
export function packFor({ ofSector, select }: Packs, sector: Sector, category: string, at: number): Pack {
  const pack = ofSector(sector, at);
  if (!pack) throw new Refusal("NOT_FOUND", `no regulation pack of the sector ${sector} is in effect at ${instant(at)}`);
  const about = select({ jurisdiction: pack.jurisdiction, category, minimum: "low" }, at);
  const quarantined = [pack, ...about.filter(({ categories }) => categories !== null)].find((one) => one.quarantined);
  if (quarantined) throw new Refusal("COMPLIANCE_EVALUATION_UNAVAILABLE");
  return pack;
}

/** The sectors in which anything is judged. */
export const judgedSectors = ({ ofSector }: Packs, at: number): Sector[] =>
  sectorNames.filter((sector) => ofSector(sector, at)?.quarantined === false);
