// imprimatur agent missing: the labels that the cloud had sealed on this station's word and doesn't have any more, as it was set back to before. Nobody else has the list.
import { setTimeout as sleep } from "node:timers/promises";
import { join, resolve } from "node:path";
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { isInUse, judged, sealedIn } from "./buffer-file.ts";
import { cloudClient, type Said } from "./cloud.ts";
import { BUFFER_FILE, DEFAULT_FILE, loadAgentConfig } from "./config.ts";
import { whyUnmet } from "./meeting.ts";
import { bufferOfService } from "./unit.ts";

const USAGE = "imprimatur agent missing --since TIME [--config FILE]";
const OPTIONS = { since: { type: "string" }, config: { type: "string" } } as const;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/; // whatever else is read as a time may be a later one, after which nothing is missing
/** What the buffer dates by the station's clock is looked for from this long before: as much may that one have been behind. */
const ASKEW_MAX_MS = 86_400_000;

/** 1 where there are some. */
export async function missing(argv: string[]): Promise<number> {
  const { since = "", config: file } = argumentsOf(USAGE, OPTIONS, argv);
  const from = Date.parse(since);
  if (!MOMENT.test(since) || Number.isNaN(from))
    throw new ConfigError(`--since is the time to which the cloud was set back, such as 2026-11-29T03:00:00Z (usage: ${USAGE})`, 2);
  const { cloud: origin, key, dataDir: told } = loadAgentConfig(file);
  const dataDir = bufferOfService(resolve(file ?? DEFAULT_FILE)) ?? told;
  const buffer = join(dataDir, BUFFER_FILE);
  if (isInUse(dataDir, buffer)) throw new ConfigError(`an agent works in ${dataDir}: stop it while this looks`);
  const whole = judged(dataDir, buffer);
  if (!whole.good) throw new ConfigError(`${buffer} can't be read: ${whole.why}`);
  const { sealed, firstAt } = sealedIn(dataDir, buffer, from - ASKEW_MAX_MS);
  if (firstAt === null || firstAt > from)
    process.stderr.write(
      `imprimatur agent: ${buffer} knows of no label before ${firstAt === null ? "now" : new Date(firstAt).toISOString()}: what was sealed before that, and is forgotten or in a file set aside, isn't listed\n`,
    );
  const left = new Map(sealed.map((one) => [one.attempt_id, one]));
  const oldest = [...left.values()].map(({ job_ref: ref }) => ref).toSorted()[0] ?? "";
  const cloud = cloudClient(origin, key);
  const answered = async <T>(ask: () => Promise<Said<T>>): Promise<T> => {
    const said = await ask();
    if (said.ok) return said.value;
    if (said.status !== 429) throw new ConfigError(whyUnmet(origin, said));
    await sleep(said.retryAfterMs ?? 1_000);
    return answered(ask);
  };
  async function strike(cursor: string): Promise<void> {
    const query = { state: "SEALED", ...(cursor === "" ? {} : { cursor }) }; // of any device: this station may have been another one
    const { data, nextCursor } = await answered(() => cloud.jobs(query)); // the latest first
    for (const { attempt_id: attemptId } of data) left.delete(attemptId ?? "");
    if (nextCursor !== null && left.size > 0 && !data.some(({ job_ref: ref }) => ref < oldest)) await strike(nextCursor);
  }
  if (left.size > 0) await strike("");
  const rows = [...left.values()].map(({ serial, link, job_ref: ref, sealed_at: at }) => [serial, link, ref, at].join());
  process.stdout.write(["serial,digital_link,job_ref,sealed_at", ...rows, ""].join("\n"));
  return rows.length > 0 ? 1 : 0;
}
