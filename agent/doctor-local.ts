// What the doctor finds on this machine itself: the settings, the disk, the buffer, and whether the eye reads what the pen draws.
import { accessSync, constants, existsSync, readlinkSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { digitalLink } from "#shared/gs1.ts";
import { Refusal } from "#shared/errors.ts";
import type { Station } from "#shared/wire/devices.ts";
import type { Task } from "./attempt.ts";
import { freeOn, ROOM_MIN_BYTES } from "./buffer-sql.ts";
import { isInUse, judged } from "./buffer-file.ts";
import { type AgentConfig, BUFFER_FILE } from "./config.ts";
import { type Line, linesOf } from "./doctor-line.ts";
import { addFace } from "./font.ts";
import { drawn } from "./drawing.ts";
import { otherDevice } from "./owner.ts";
import { loadTemplates } from "./template.ts";
import type { State } from "./state.ts";

const ROOM_GOOD_BYTES = 268_435_456;
const MIB = 1_048_576;

export function configLine({ printers, scanners, operators }: AgentConfig, file: string): Line {
  const { well, odd } = linesOf("settings");
  const words = `${file}: ${printers.length} printer(s), ${scanners.length} scanner(s), ${operators.length} operator(s)`;
  if (existsSync(file) && process.platform !== "win32" && (statSync(file).mode & 0o077) !== 0)
    return odd(`${words}; other users may read the key in it: chmod 600 ${file}`);
  return operators.length === 0 ? odd(`${words}; nobody can answer what a label's fate was: add operators`) : well(words);
}

export function diskLine({ dataDir }: AgentConfig): Line {
  const { well, odd, bad } = linesOf("disk");
  const folder = nearestThere(resolve(dataDir));
  if (!existsSync(folder)) return bad(`${folder} is a link that leads nowhere, as to a disk that isn't mounted: mount it, or set dataDir`);
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    return bad(`${dataDir} can't be written (${(error as Error).message}): give this user the folder, or set dataDir`);
  }
  const freeBytes = freeOn(folder);
  const free = `${Math.floor(freeBytes / MIB)} MiB are free for ${dataDir}`;
  if (freeBytes < ROOM_MIN_BYTES) return bad(`${free}: nothing is claimed below ${ROOM_MIN_BYTES / MIB} MiB, make room`);
  return freeBytes < ROOM_GOOD_BYTES ? odd(`${free}: make room before an outage fills them`) : well(free);
}
/** A link is there, wherever it leads. */
const nearestThere = (path: string): string => (existsSync(path) || isLink(path) ? path : nearestThere(dirname(path)));
function isLink(path: string): boolean {
  try {
    return readlinkSync(path) !== "";
  } catch {
    return false; // nothing, or no link, or below what is no folder
  }
}

/** Whether an agent has the buffer, and with it the devices: one whose console isn't known can't be asked for them. */
export function isHeld({ dataDir }: AgentConfig): boolean {
  const file = join(dataDir, BUFFER_FILE);
  return existsSync(file) && isInUse(dataDir, file);
}

/** There is one that nobody works with, as far as this user may tell. */
export function isLeft({ dataDir }: AgentConfig): boolean {
  const file = join(dataDir, BUFFER_FILE);
  try {
    accessSync(file, constants.R_OK | constants.W_OK);
    return !isInUse(dataDir, file);
  } catch {
    return false; // none there, or none of ours to look into
  }
}

/** `device`: whose key the settings have, where the cloud says so. */
export function bufferLine({ dataDir }: AgentConfig, running: State | undefined, device: Station["device"] | null): Line {
  const { well, odd, bad } = linesOf("buffer");
  const file = join(dataDir, BUFFER_FILE);
  if (running) {
    const { buffer, notices, quarantine } = running;
    const { quarantined = quarantine.length } = running as Partial<State>; // an agent of the version before says no number
    const told = notices.filter(({ code }) => code.startsWith("buffer")).map(({ words }) => words);
    const refused = quarantined > 0 ? [`${quarantined} were refused: look at the console`] : [];
    const line = buffer.fault !== null ? bad : told.length + refused.length > 0 ? odd : well;
    return line([`${buffer.depth} report(s) wait for the cloud`, ...told, ...refused].join("; "));
  }
  if (!existsSync(file)) return well(`none yet: it begins in ${dataDir}`);
  try {
    const said = judged(dataDir, file);
    if (!said.good) return bad(`${file} is damaged (${said.why}): the agent's next start sets it aside and asks the cloud what it held`);
    if (said.owner && device && said.owner.id !== device.id) return bad(otherDevice(dataDir, said.owner, device));
    const words = `whole; ${said.waiting} report(s) wait for the cloud`;
    return said.isPaused
      ? odd(`${words}; the station is paused, and begins no label until somebody resumes it at its console`)
      : well(words);
  } catch (error) {
    const isTaken = error instanceof Refusal && error.message.startsWith("another agent");
    return isTaken
      ? odd(`an agent works in ${dataDir}, and its console doesn't answer: is console in these settings the running one's?`)
      : bad((error as Error).message);
  }
}

/** A label of each printer's media, drawn and read back: the decoder works, and the template fits. */
export async function eyeLine({ printers, fonts }: AgentConfig): Promise<Line> {
  const { well, bad } = linesOf("label");
  try {
    for (const font of fonts) addFace(font);
  } catch (error) {
    return bad((error as Error).message);
  }
  const [gtin, serial] = ["04006381333931", "274877906943"];
  const task: Task = {
    job_ref: "", attempt: 1, gtin, serial, digital_link: digitalLink("https://id.example", gtin, { serial }), sgtin96_epc: null,
    needs: ["qr"], template: "default", template_sha256: null, duplicate_risk: false, product_name: null, reprint: false,
  }; // oxfmt-ignore
  const templates = loadTemplates();
  for (const printer of printers)
    try {
      await drawn({ templates }, { task }, printer);
    } catch (error) {
      return bad(`${printer.name}: ${(error as Error).message}: see its label and dpi`);
    }
  return well("a label for each printer is drawn, and read back by the decoder");
}
