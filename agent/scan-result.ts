// A scan as evidence: what goes to the cloud under `scan_result`, and nothing that the scanner didn't say.
import type { Evidence } from "#shared/wire/evidence.ts";
import type { JobActor } from "#shared/wire/jobs.ts";
import type { HeardTag } from "./rfid.ts";
import type { Sighting } from "./scanners/scanner.ts";
import { type Intended, type SymbolCheck, symbolCheck } from "./symbol-check.ts";

type ScanResult = Evidence["scan_result"] & { symbol_check?: SymbolCheck };
/** A scan that the rules have let pass, and whose word it is. */
export type GoodScan = { result: ScanResult; actor: JobActor; source: "scanner" | "person" };

/** `intended` are the modules as the label was drawn: with them a camera's picture shows where the head didn't print. */
export function scanResultOf(sighting: Sighting, { intended, rfid }: { intended?: Intended; rfid?: HeardTag } = {}): ScanResult {
  const { text, symbology, decoder, scanned_at, source, image_sha256, symbol, symbol_check: seen } = sighting;
  const check = seen && symbol && intended ? { ...symbolCheck(symbol, { intended }), ...seen } : seen;
  const result: ScanResult = {
    decoded: text,
    symbology,
    decoder,
    scanned_at,
    source,
    ...(image_sha256 === undefined ? {} : { image_sha256 }),
    ...(check ? { symbol_check: check } : {}),
    ...(sighting.simulated ? { simulated: true } : {}),
  };
  return rfid ? withTag(result, rfid) : result;
}

/** That a tag is simulated is said of the scan as a whole. */
export function withTag(result: ScanResult, { simulated, ...rfid }: HeardTag): ScanResult {
  return { ...result, rfid, ...(simulated ? { simulated } : {}) };
}
