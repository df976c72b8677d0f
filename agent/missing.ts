// imprimatur agent missing: the labels that the cloud had sealed on this station's word and doesn't have any more, as it was set back to before. Nobody else has the list; --recover has the cloud take them back.
import { setTimeout as sleep } from "node:timers/promises";
import { join } from "node:path";
import { argumentsOf, ConfigError } from "#shared/arguments.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import type { Recovered } from "#shared/wire/carriers.ts";
import { isInUse, judged, sealedIn } from "./buffer-file.ts";
import { type CloudClient, cloudClient, type Said } from "./cloud.ts";
import { BUFFER_FILE, loadAgentConfig } from "./config.ts";
import { bufferOfService } from "./install.ts";
import { whyUnmet } from "./meeting.ts";

const USAGE =
  "imprimatur agent missing --since TIME [--recover] [--config FILE], which ends with 0: none is missing, 1: some are, or with --recover one is refused, 2: it couldn't look";
const OPTIONS = { since: { type: "string" }, recover: { type: "boolean" }, config: { type: "string" } } as const;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/; // whatever else is read as a time may be a later one, after which nothing is missing
/** What the buffer dates by the station's clock is looked for from this long before: as much may that one have been behind. */
const ASKEW_MAX_MS = 86_400_000;

export async function missing(argv: string[]): Promise<number> {
  const { since = "", recover = false, config: file } = argumentsOf(USAGE, OPTIONS, argv);
  const from = Date.parse(since);
  if (!MOMENT.test(since) || Number.isNaN(from))
    throw new ConfigError(`--since is the time to which the cloud was set back, such as 2026-11-29T03:00:00Z (usage: ${USAGE})`, 2);
  const { cloud: origin, key, dataDir: told } = loadAgentConfig(file);
  const dataDir = bufferOfService(file) ?? told;
  const buffer = join(dataDir, BUFFER_FILE);
  if (isInUse(dataDir, buffer)) throw new ConfigError(`an agent works in ${dataDir}: stop it while this looks`);
  const whole = judged(dataDir, buffer);
  if (!whole.good) throw new ConfigError(`${buffer} can't be read: ${whole.why}`);
  const { sealed, firstAt } = sealedIn(dataDir, buffer, from - ASKEW_MAX_MS);
  if (firstAt === null || firstAt > from)
    process.stderr.write(
      `imprimatur agent: ${buffer} knows of no label before ${firstAt === null ? "now" : new Date(firstAt).toISOString()}: what was sealed before that, and is forgotten or in a file set aside, isn't listed\n`,
    );
  const cloud = cloudClient(origin, key);
  const answered: Answered = async (ask) => {
    const said = await ask();
    if (said.ok) return said.value;
    if (said.status !== 429 && said.code !== "OVERLOADED") throw new ConfigError(whyUnmet(origin, said));
    await sleep(said.retryAfterMs ?? 1_000);
    return answered(ask);
  };
  const lost = await lostOf(sealed, cloud, answered);
  const columns = ["serial", "digital_link", "job_ref", "sealed_at", ...(recover ? ["outcome", "message"] : [])];
  write([columns.join()]);
  if (recover) return Number(await bringBack(lost, cloud, answered));
  write(lost.map((one) => rowOf(one)));
  return Number(lost.length > 0);
}

type Sealed = ReturnType<typeof sealedIn>["sealed"];
/** Asks until it isn't told to wait any more. */
type Answered = <T>(ask: () => Promise<Said<T>>) => Promise<T>;

/** Those that the cloud has in no sealed job. */
async function lostOf(sealed: Sealed, cloud: CloudClient, answered: Answered): Promise<Sealed> {
  const left = new Map(sealed.map((one) => [one.attempt_id, one]));
  const oldest = sealed.map(({ job_ref: ref }) => ref).toSorted()[0] ?? "";
  async function strike(cursor: string): Promise<void> {
    const query = { state: "SEALED", ...(cursor === "" ? {} : { cursor }) }; // of any device: this station may have been another one
    const { data, nextCursor } = await answered(() => cloud.jobs(query)); // the latest first
    for (const { attempt_id: attemptId } of data) left.delete(attemptId ?? "");
    if (nextCursor !== null && left.size > 0 && !data.some(({ job_ref: ref }) => ref < oldest)) await strike(nextCursor);
  }
  if (left.size > 0) await strike("");
  return [...left.values()];
}

type Fate = Recovered["results"][number];
/** Says what became of each as it is heard, so that what is cut off has told of those before. True where one is refused. */
async function bringBack(lost: Sealed, cloud: CloudClient, answered: Answered): Promise<boolean> {
  let isOneRefused = false;
  for (let done = 0; done < lost.length; done += limits.PRINT_OUTCOMES_MAX_ITEMS) {
    const some = lost.slice(done, done + limits.PRINT_OUTCOMES_MAX_ITEMS);
    const asked = some.map(({ gtin, serial, sealed_at: at, job_ref: job }) => ({
      gtin,
      serial,
      reason: saying("sealed_and_lost", { at, job }),
    }));
    const { results } = await answered(() => cloud.recover(asked));
    const fates = new Map(results.map((fate) => [fate.serial, fate]));
    write(some.map((one) => rowOf(one, fates.get(one.serial))));
    isOneRefused ||= results.some(({ outcome }) => outcome === "refused");
  }
  return isOneRefused;
}

const write = (rows: string[]) => process.stdout.write([...rows, ""].join("\n"));
const rowOf = ({ serial, link, job_ref: ref, sealed_at: at }: Sealed[number], fate?: Fate): string =>
  [serial, link, ref, at, ...(fate ? [fate.outcome, `"${(fate.message ?? "").replaceAll('"', '""')}"`] : [])].join();
