// A scan as evidence: what goes to the cloud under `scan_result`, and nothing that the scanner didn't say.
import type { JobActor } from "#shared/wire/jobs.ts";
import type { HeardTag, RfidEvidence } from "./rfid.ts";
import type { Sighting, Source } from "./scanners/scanner.ts";
import { type Intended, type SymbolCheck, symbolCheck } from "./symbol-check.ts";

export type ScanResult = {
  decoded: string;
  symbology: string;
  decoder: string;
  scanned_at: string;
  source: Source;
  image_sha256?: string;
  symbol_check?: SymbolCheck;
  rfid?: RfidEvidence;
  simulated?: true;
};

/** A scan that the rules have let pass, and whose word it is. */
export type GoodScan = { result: ScanResult; actor: JobActor; source: "scanner" | "person" };

/** `intended` are the modules as the label was drawn: with them a camera's picture shows where the head didn't print. */
export function scanResultOf(sighting: Sighting, { intended, rfid }: { intended?: Intended; rfid?: HeardTag } = {}): ScanResult {
  const { text, symbology, decoder, scanned_at, source, image_sha256, symbol, symbol_check: seen } = sighting;
  const check = seen && symbol && intended ? { ...symbolCheck(symbol, { intended }), ...seen } : seen;
  const { simulated, ...tag } = rfid ?? {};
  return {
    decoded: text,
    symbology,
    decoder,
    scanned_at,
    source,
    ...(image_sha256 === undefined ? {} : { image_sha256 }),
    ...(check ? { symbol_check: check } : {}),
    ...(rfid ? { rfid: tag as RfidEvidence } : {}),
    ...(sighting.simulated || simulated ? { simulated: true } : {}),
  };
}
