// Taking a backup: a snapshot of the database, then the files beside it, which only ever grow; checked before it is called one.
import { chmodSync, copyFileSync, existsSync, lstatSync, mkdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Logger } from "pino";
import { signedNote } from "#shared/note.ts";
import { urlAt } from "#shared/url-at.ts";
import type { Config } from "../config.ts";
import { nameAt } from "../domain/log.ts";
import { makeFolder, syncFolder } from "../files.ts";
import { keyFilesIn, keyFolder } from "../key-files.ts";
import { signerFrom } from "../keys.ts";
import { copyDatabase } from "../store/copy.ts";
import { DATABASE } from "../store/open.ts";
import { digestOfFile, type Manifest, pack } from "./archive.ts";
import { inspect, type Inspected } from "./inspect.ts";
import { inScratch } from "./scratch.ts";
import { keysSetIn, openerFor } from "../seal.ts";

export async function takeBackup(config: Config, to: string, log: Logger, now: number): Promise<Manifest> {
  if (config.DATABASE_URL !== undefined)
    throw new Error(
      "this cloud works on PostgreSQL: back that up with its own means (pg_dump, or base backups with WAL), and the data folder as files",
    );
  if (/[/\\]$/.test(to)) throw new Error(`${to} is the name of a folder: name a file in it`);
  makeFolder(dirname(to));
  if (isThere(to)) throw new Error(`${to} exists: name a file that doesn't`);
  return inScratch(`${to}.`, async (folder) => {
    await copyDatabase(join(config.DATA_DIR, DATABASE), join(folder, DATABASE));
    chmodSync(join(folder, DATABASE), 0o600);
    const names = [DATABASE, ...copyBeside(config.DATA_DIR, folder)];
    const { migration, log: head, audit, keys } = await inspect(join(folder, DATABASE), log);
    const manifest: Manifest = {
      takenAt: new Date(now).toISOString(),
      migration,
      log: { ...head, checkpoint: noteOf(folder, names, head, keys, config) },
      audit,
      needs: keysSetIn(config).length === 0 ? [] : ["IMPRIMATUR_SEALING_KEY"],
      files: await Promise.all(names.map(async (name) => ({ name, ...(await digestOfFile(join(folder, name))) }))),
    };
    const whole = join(folder, "whole");
    await pack(whole, folder, manifest);
    if (isThere(to)) throw new Error(`${to} was made meanwhile`);
    renameSync(whole, to);
    syncFolder(dirname(to));
    return manifest;
  });
}

/** Also a link that leads nowhere: it would be moved away. */
const isThere = (name: string): boolean => lstatSync(name, { throwIfNoEntry: false }) !== undefined;

/** After the database: a key is a file before any row speaks of it. */
function copyBeside(dataDir: string, folder: string): string[] {
  mkdirSync(join(folder, "keys"), { mode: 0o700 });
  const names = [
    ...keyFilesIn(keyFolder(dataDir)).map((name) => `keys/${name}`),
    ...["sealing-key", "bootstrap-key"].filter((name) => existsSync(join(dataDir, name))),
  ];
  for (const name of names) copyFileSync(join(dataDir, name), join(folder, name));
  return names;
}

/** Signed with the newest key that the copy knows: one that was made since then nobody could check by it. */
function noteOf(
  folder: string,
  names: readonly string[],
  { size, root }: Inspected["log"],
  known: Inspected["keys"],
  config: Config,
): string {
  const files = names.filter((file) => file.startsWith("keys/"));
  if (files.length === 0) throw new Error(`${config.DATA_DIR}/keys holds no signing key: it isn't the folder of a cloud that ever ran`);
  const opener = openerFor(folder, keysSetIn(config));
  const signers = files.flatMap((file) => signerFrom(join(folder, file), opener) ?? []);
  if (signers.length === 0)
    throw new Error(`no key in ${config.DATA_DIR}/keys can be opened: set IMPRIMATUR_SEALING_KEY as it is set for the cloud`);
  const signer = signers.findLast((one) => known?.keys.some((key) => key.publicBytes.equals(one.publicBytes)));
  if (!signer)
    throw new Error(`the database knows no key that is in ${config.DATA_DIR}/keys: start the cloud once, and take the backup then`);
  const { publicBytes, signBytes } = signer;
  const name = nameAt(config.PUBLIC_URL ?? urlAt(config.HOST, config.PORT));
  return signedNote({ origin: name, size, root: Buffer.from(root, "hex") }, { name, publicBytes }, signBytes);
}
