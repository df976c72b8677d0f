// The first admin key at a start: the operator's, the one that the data folder keeps, or a new one, which is a file before the store knows it.
import { randomUUIDv7 } from "node:crypto";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { bootstrapKey } from "./config.ts";
import * as bootstrap from "./domain/bootstrap.ts";
import { mintSecret } from "./domain/secrets.ts";
import { keptText, writeDurably } from "./files.ts";
import type { Log } from "./log.ts";
import type { Store } from "./store/store.ts";

const ANEW = "remove the file to have a new one made";
const OTHERWISE =
  "remove the file; the admin key that was made is in the store and none is made anew, but IMPRIMATUR_BOOTSTRAP_KEY sets another";
/** What is wrong with the key file of a data folder, so that no start takes it, and what to do. */
export function keptFault(key: string, file: string, isMissing: boolean): { says: string; todo: string } | undefined {
  try {
    bootstrapKey(key);
    return undefined;
  } catch (error) {
    return { says: `the key in ${file} ${(error as Error).message}`, todo: isMissing ? ANEW : OTHERWISE };
  }
}

/** The key in this file; undefined where there is no file. */
export const keptKey = (file: string): string | undefined => (existsSync(file) ? keptText(file).trim() : undefined);
export const keptIn = (dataDir: string): string => join(dataDir, "bootstrap-key");

/** The operator's key, the one kept from the first start, or a new one if the store has never had any. */
export async function ensureBootstrapKey(store: Store, set: string | undefined, file: string, log: Log): Promise<string | undefined> {
  const isMissing = await store.read("bootstrap key", bootstrap.isMissing);
  const kept = keptKey(file);
  const fault = kept === undefined ? undefined : keptFault(kept, file, isMissing);
  if (fault) throw new Error(`${fault.says}: ${fault.todo}`);
  const fresh = set === undefined && isMissing;
  const secret = set ?? (fresh ? (kept ?? mintSecret()) : undefined);
  if (secret === undefined) return undefined;
  if (fresh && !kept) writeDurably(file, `${secret}\n`); // before the store knows it: a crash between the two loses nothing
  const outcome = await store.write("bootstrap key", (tx) => bootstrap.ensure(tx, secret, randomUUIDv7(), { first: set === undefined }));
  if (outcome === "late") {
    rmSync(file, { force: true }); // it never opened anything
    log.warn(
      { event: "bootstrap-key-elsewhere" },
      "another node made the bootstrap key at the same moment: it is in that node's data folder",
    );
  }
  if (outcome === "set") log.info({ event: "bootstrap-key-set" }, "the bootstrap key was set");
  if (outcome === "dead")
    log.error({ event: "bootstrap-key-dead" }, "IMPRIMATUR_BOOTSTRAP_KEY was replaced or revoked before and stays dead: choose a new one");
  return fresh && outcome === "set" ? secret : undefined;
}
