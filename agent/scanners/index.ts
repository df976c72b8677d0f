// The scanners there are: a new kind is a file here and a line below.
import { type Clock, systemClock } from "../clock.ts";
import { openCamera } from "./camera.ts";
import { openKeyboard } from "./keyboard.ts";
import { openLine } from "./line.ts";
import { openRfidLine } from "./rfid-line.ts";
import type { News, OpenScanner, Scanner, ScannerSettings } from "./scanner.ts";

export const scanners = { line: openLine, camera: openCamera, keyboard: openKeyboard, rfid: openRfidLine } as const satisfies Record<
  string,
  OpenScanner
>;
export type ScannerDriver = keyof typeof scanners;

/** Throws a sentence where the settings are wrong; a device that is away is news, not an error. */
export const openScanner = (settings: ScannerSettings & { driver: ScannerDriver }, news: News, clock: Clock = systemClock): Scanner =>
  scanners[settings.driver](settings, news, clock);
