// The scanners a station can have, by the name its settings give them. A new kind is a line here and a file beside.
import { type Clock, systemClock } from "../clock.ts";
import { camera } from "./camera.ts";
import { keyboard } from "./keyboard.ts";
import { line } from "./line.ts";
import { rfidLine } from "./rfid-line.ts";
import type { News, Scanner, ScannerDriver, ScannerSettings } from "./scanner.ts";

export const scannerDrivers = { line, camera, keyboard, rfid: rfidLine } as const satisfies Record<string, ScannerDriver>;
export type ScannerKind = keyof typeof scannerDrivers;

export const openScanner = (settings: ScannerSettings & { driver: ScannerKind }, news: News, clock: Clock = systemClock): Scanner =>
  scannerDrivers[settings.driver].open(settings, news, clock);
