// What a former sealing key closed, or an earlier version left in clear, is closed with the newest: a slice at a time while everything runs.
import type { Logger } from "pino";
import { type Closed, countByKey, reseal } from "../domain/sealed-secrets.ts";
import * as serialSecrets from "../domain/serial-secrets.ts";
import { sealKeyFiles, unopenableKey } from "../key-files.ts";
import type { Seal } from "../seal.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 60_000;
const SLICE_ROWS = 100;
const slices = { webhooks: reseal, serials: serialSecrets.reseal };

/** `keys` is the folder of the signing keys. */
export const startResealer = (store: Store, log: Logger, seal: Seal, keys: string): Worker =>
  startWorker(log, {
    event: "reseal-failed",
    idleMs: EVERY_MS,
    step: async (stopping) => {
      const moved = { signingKeys: sealKeyFiles(keys, seal), webhooks: 0, serials: 0 };
      for (const place of ["webhooks", "serials"] as const)
        for (let after: string | undefined = ""; after !== undefined && !stopping();) {
          const from: string = after;
          const slice = await store.write("reseal secrets", (tx) => slices[place](tx, seal, from, SLICE_ROWS));
          moved[place] += slice.moved;
          after = slice.last;
        }
      if (Object.values(moved).some((count) => count > 0)) tellResealed(log, seal, moved);
      return false;
    },
  });

const tellResealed = (log: Logger, { id }: Seal, moved: object): void =>
  log.info(
    { event: "secrets-resealed", ...moved, keyId: id },
    "what lay in clear, or a former sealing key had closed, is closed with the newest",
  );

/** Before anything else uses the store: a node that is alone on it seals what an earlier version left in clear, and overwrites the clear copies. */
export async function sealAtStart(store: Store, log: Logger, seal: Seal): Promise<void> {
  store.sole?.overwrites(true);
  try {
    const serials = await store.write("serial secrets", (tx) => serialSecrets.beginSealing(tx, seal, store.sole !== undefined));
    if (serials > 0) tellResealed(log, seal, { serials });
    for (let areMore = true; areMore;)
      areMore = await store.write("serial secrets", (tx) => serialSecrets.beginMissing(tx, seal, SLICE_ROWS));
  } finally {
    store.sole?.overwrites(false);
  }
}

const plural = (count: number, of: string) => `${count} ${of}${count === 1 ? "" : "s"}`;

/** Said at the start, so that nobody has to find it out from a delivery that couldn't be signed. */
export async function tellUnopenable(store: Store, log: Logger, seal: Seal, keys: string): Promise<void> {
  const lost = (await store.read("sealing keys in use", countByKey)).filter(({ keyId }) => keyId !== null && !seal.ids.includes(keyId));
  const many = (kind: Closed["kind"]) => lost.filter((one) => one.kind === kind).reduce((sum, { secrets }) => sum + secrets, 0);
  const [webhooks, serials] = [many("webhook"), many("serial")];
  if (lost.length > 0)
    log.error(
      {
        event: "sealing-key-missing",
        secrets: webhooks + serials,
        webhooks,
        serials,
        keyIds: [...new Set(lost.map(({ keyId }) => keyId))],
      },
      `${plural(webhooks, "webhook secret")} and ${plural(serials, "tenant's serial secret")} were sealed with a key that this node doesn't have: ` +
        "add it as a further line of IMPRIMATUR_SEALING_KEY. Until then those webhooks can't be signed for, which a rotation of their secrets mends too, " +
        "and those tenants get no serials, which nothing else mends",
    );
  const file = unopenableKey(keys, seal);
  if (file !== undefined)
    log.error(
      { event: "signing-key-unopenable", file },
      `${file} was sealed with a key that this node doesn't have, or changed since: another signing key takes its place, and what it signed goes on verifying. ` +
        "To have it back, add its sealing key as a further line of IMPRIMATUR_SEALING_KEY and start again",
    );
}
