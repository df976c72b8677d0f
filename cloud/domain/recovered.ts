// Labels that a restored store has lost: their serials were given out after the backup was made, and who scans one finds nothing. Whoever printed them brings them back.
import { eq } from "../store/drizzle.ts";
import { gtin14 } from "#shared/gs1.ts";
import type { LostLabel, Outcome, Recovered } from "#shared/wire/carriers.ts";
import type { Seal } from "../seal.ts";
import { serialCounters } from "../store/schema.ts";
import { inTurn, together, type Tx } from "../store/store.ts";
import * as carriers from "./carriers.ts";
import type { By } from "./events.ts";
import * as printStatus from "./print-status.ts";
import * as products from "./products.ts";
import { placeOf } from "./serial-numbers.ts";
import { secretOf } from "./serial-secrets.ts";

type Fate = Omit<Recovered["results"][number], "serial">;
const refused = (message: string): Fate => ({ outcome: "refused", message });
const known = (message: string | null): Fate => ({ outcome: "known", message });

type Label = LostLabel & { gtin: string };
/** What becomes of each. A label that is back, or whose serial was there unprinted, is printed from now on: webhooks hear it, and its next job is warned. */
export async function recover(tx: Tx, by: By, told: readonly LostLabel[], seal: Seal, origin: string): Promise<Recovered> {
  const labels = new Map(told.map((label) => [label.serial, { ...label, gtin: gtin14(label.gtin) }]));
  const inOrder = inTurn(labels.values(), ({ serial }) => serial);
  const ownerOf = await heldOwners(tx, by.tenantId, inOrder);
  const placeOfLost = await placesGiven(tx, by.tenantId, seal);
  const rows = await together(inOrder.map(({ serial }) => carriers.find(tx, by.tenantId, serial)));
  const fates = new Map<string, Fate>();
  const back: carriers.Given[] = [];
  const printed: Outcome[] = [];
  for (const [i, label] of inOrder.entries()) {
    const { serial, gtin, productId: _, ...said } = label;
    const row = rows[i];
    const [product, n] = row ? [] : [ownerOf(label), placeOfLost(serial)];
    const fate = row ? fateOfKnown(row, gtin) : fateOfLost(product, n);
    if (product && n !== undefined) back.push({ product, serial, n });
    fates.set(serial, fate);
    if (fate.outcome !== "refused" && row?.printStatus !== "printed") printed.push({ serial, ...said, status: "printed" });
  }
  await carriers.insertGiven(tx, back);
  if (printed.length > 0) await printStatus.report(tx, by, printed, { keyless: false, origin });
  return { results: [...labels.keys()].map((serial) => ({ serial, ...(fates.get(serial) as Fate) })) };
}

/** Held before any serial is written, in everybody's order. */
async function heldOwners(tx: Tx, tenantId: string, labels: readonly Label[]): Promise<(label: Label) => products.Row | undefined> {
  const gtins = [...new Set(labels.map(({ gtin }) => gtin))];
  const models = new Map(await together(gtins.map(async (gtin) => [gtin, await products.modelOf(tx, tenantId, gtin)] as const)));
  const idOf = ({ productId, gtin }: Label) => productId ?? models.get(gtin) ?? "";
  const ids = [...new Set(labels.map(idOf).toSorted())];
  const held = new Map(await together(ids.map(async (id) => [id, await products.holdAny(tx, tenantId, id)] as const)));
  return (label) => {
    const owner = held.get(idOf(label));
    return owner?.gtin === label.gtin ? owner : undefined;
  };
}

function fateOfKnown({ gtin, sealedJob, openJob }: carriers.Row, told: string): Fate {
  if (gtin !== told) return refused(`its GTIN is ${gtin} here`);
  if (openJob !== null) return known(`its job ${openJob} is open: cancel it, or there will be two labels`);
  return known(sealedJob === null ? null : `${sealedJob} sealed a label of it too: only one of the two may be about`);
}

/** Places that were given out and of which the store knows nothing: no serial can be made up, and none of these comes again. */
async function placesGiven(tx: Tx, tenantId: string, seal: Seal): Promise<(serial: string) => number | undefined> {
  const counter = await tx.db.select().from(serialCounters).where(eq(serialCounters.tenantId, tenantId)).get();
  if (!counter) return () => undefined;
  const secret = secretOf(counter, seal);
  return (serial) => {
    const place = placeOf(secret, serial);
    return place !== undefined && place < counter.next ? place : undefined;
  };
}

function fateOfLost(product: products.Row | undefined, place: number | undefined): Fate {
  if (place === undefined) return refused("it is no serial that this tenant has given out");
  if (!product) return refused("no product of its GTIN is known: create it first, as it was; where that was no model, say its productId");
  return { outcome: "recovered", message: null };
}
