// What was seen: pictures until the cloud has them, and what the scanners said, for as long as a judgement may ask for it.
import { placesFor, type Sql } from "./buffer-sql.ts";
import type { Seen } from "./scan-rules.ts";

const KEPT_SIGHTINGS = 20_000;

export const sightingsIn = ({ run, insert, all, write, clock }: Sql) => ({
  picture: (sha256: string, mediaType: string, bytes: Uint8Array) =>
    void run("INSERT INTO pictures VALUES (?, ?, ?, ?, NULL) ON CONFLICT DO NOTHING", sha256, mediaType, bytes, clock.now()),
  /** In order, without those that are named. */
  nextPictures: (most: number, aside: string[]): { sha256: string; mediaType: string; bytes: Uint8Array<ArrayBuffer> }[] =>
    all(
      "SELECT * FROM pictures WHERE sent_at IS NULL AND sha256 NOT IN (SELECT value FROM json_each(?)) ORDER BY at, rowid LIMIT ?",
      JSON.stringify(aside),
      most,
    ).map((row) => ({
      sha256: String(row["sha256"]), mediaType: String(row["media_type"]), bytes: row["bytes"] as Uint8Array<ArrayBuffer>,
    })), // oxfmt-ignore
  /** Once the cloud has it, its bytes needn't lie here as well. */
  pictureSent: (sha256: string) => void run("UPDATE pictures SET sent_at = ?, bytes = NULL WHERE sha256 = ?", clock.now(), sha256),

  sighting: ({ scanner, text, scanned_at, image_sha256 }: Seen) =>
    write(() => {
      const n = insert("sightings", { scanner, text, scanned_at, image_sha256: image_sha256 ?? null });
      if (n % 1_000 === 0) run("DELETE FROM sightings WHERE n <= ?", n - KEPT_SIGHTINGS);
    }),
  /** What matters to a judgement of these texts: where and when they were seen, this very picture, and the scanner's last word. */
  seen: (scanner: string, texts: string[], image: string | undefined): Seen[] =>
    all(
      `SELECT * FROM (SELECT * FROM sightings WHERE text IN (${placesFor(texts)}) ORDER BY n DESC LIMIT 200)
       UNION SELECT * FROM (SELECT * FROM sightings WHERE image_sha256 = ? LIMIT 1)
       UNION SELECT * FROM (SELECT * FROM sightings WHERE scanner = ? ORDER BY n DESC LIMIT 1) ORDER BY n`,
      ...texts, image ?? "", scanner,
    ).map((row) => ({
      scanner: String(row["scanner"]), text: String(row["text"]), scanned_at: String(row["scanned_at"]),
      ...(typeof row["image_sha256"] === "string" ? { image_sha256: row["image_sha256"] } : {}),
    })), // oxfmt-ignore
});
