// What the doctor finds on this machine itself: the settings, the disk, the buffer, and whether the eye reads what the pen draws.
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { digitalLink } from "#shared/gs1.ts";
import { Refusal } from "#shared/errors.ts";
import type { Station } from "#shared/wire/devices.ts";
import type { Task } from "./attempt.ts";
import { freeOn, ROOM_MIN_BYTES } from "./buffer-sql.ts";
import { judged } from "./buffer-file.ts";
import { type AgentConfig, BUFFER_FILE } from "./config.ts";
import type { Line } from "./doctor.ts";
import { addFace } from "./font.ts";
import { drawn } from "./drawing.ts";
import { otherDevice } from "./owner.ts";
import { loadTemplates } from "./template.ts";
import type { State } from "./state.ts";

const ROOM_GOOD_BYTES = 268_435_456;
const MIB = 1_048_576;

export function configLines({ printers, scanners, operators }: AgentConfig, file: string): Line[] {
  const check = "settings";
  const words = `${file}: ${printers.length} printer(s), ${scanners.length} scanner(s), ${operators.length} operator(s)`;
  if (existsSync(file) && process.platform !== "win32" && (statSync(file).mode & 0o077) !== 0)
    return [{ check, level: "warn", words: `${words}; other users may read the key in it: chmod 600 ${file}` }];
  if (operators.length === 0)
    return [{ check, level: "warn", words: `${words}; nobody can answer what a label's fate was: add operators` }];
  return [{ check, level: "ok", words }];
}

export function diskLine({ dataDir }: AgentConfig): Line {
  const check = "disk";
  const folder = nearestThere(resolve(dataDir));
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    return {
      check,
      level: "FAIL",
      words: `${dataDir} can't be written (${(error as Error).message}): give this user the folder, or set dataDir`,
    };
  }
  const freeBytes = freeOn(folder);
  const free = `${Math.floor(freeBytes / MIB)} MiB are free for ${dataDir}`;
  if (freeBytes < ROOM_MIN_BYTES)
    return { check, level: "FAIL", words: `${free}: nothing is claimed below ${ROOM_MIN_BYTES / MIB} MiB, make room` };
  return freeBytes < ROOM_GOOD_BYTES
    ? { check, level: "warn", words: `${free}: make room before an outage fills them` }
    : { check, level: "ok", words: free };
}
const nearestThere = (folder: string): string => (existsSync(folder) ? folder : nearestThere(dirname(folder)));

/** `device`: whose key the settings have, where the cloud says so. */
export function bufferLine({ dataDir }: AgentConfig, running: State | undefined, device: Station["device"] | null): Line {
  const check = "buffer";
  const file = join(dataDir, BUFFER_FILE);
  if (running) {
    const { buffer, notices, quarantine } = running;
    const told = notices.filter(({ code }) => code.startsWith("buffer")).map(({ words }) => words);
    const words = [
      `${buffer.depth} report(s) wait for the cloud`,
      ...told,
      ...(quarantine.length > 0 ? [`${quarantine.length} were refused: look at the console`] : []),
    ];
    const level = words.length > 1 ? "warn" : "ok";
    return { check, level: buffer.fault === null ? level : "FAIL", words: words.join("; ") };
  }
  if (!existsSync(file)) return { check, level: "ok", words: `none yet: it begins in ${dataDir}` };
  try {
    const said = judged(dataDir, file);
    if (said.good && said.owner && device && said.owner.id !== device.id)
      return { check, level: "FAIL", words: otherDevice(dataDir, said.owner, device) };
    const words = said.good ? `whole; ${said.waiting} report(s) wait for the cloud` : "";
    if (said.good && said.isPaused)
      return {
        check,
        level: "warn",
        words: `${words}; the station is paused, and begins no label until somebody resumes it at its console`,
      };
    if (said.good) return { check, level: "ok", words };
    return {
      check,
      level: "FAIL",
      words: `${file} is damaged (${said.why}): the agent's next start sets it aside and asks the cloud what it held`,
    };
  } catch (error) {
    const isHeld = error instanceof Refusal && error.message.startsWith("another agent");
    if (isHeld)
      return {
        check,
        level: "warn",
        words: `an agent works in ${dataDir}, and its console doesn't answer: is console in these settings the running one's?`,
      };
    return { check, level: "FAIL", words: (error as Error).message };
  }
}

/** A label of each printer's media, drawn and read back: the decoder works, and the template fits. */
export async function eyeLine({ printers, fonts }: AgentConfig): Promise<Line> {
  const check = "label";
  try {
    for (const font of fonts) addFace(font);
  } catch (error) {
    return { check, level: "FAIL", words: (error as Error).message };
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
      return { check, level: "FAIL", words: `${printer.name}: ${(error as Error).message}: see its label and dpi` };
    }
  return { check, level: "ok", words: "a label for each printer is drawn, and read back by the decoder" };
}
