// Carriers over HTTP: serials by the thousand, the file that a print layer works from, what it reports back, and labels that a restore has lost.
import { Readable } from "node:stream";
import { limits } from "#shared/limits.ts";
import { closed } from "#shared/wire/common.ts";
import {
  Carrier,
  CarrierBatch,
  CarrierQuery,
  type CarrierRow,
  CarriersExported,
  CarriersMade,
  LostLabels,
  PrintStatus,
  PrintStatusTaken,
  Recovered,
} from "#shared/wire/carriers.ts";
import { Type } from "typebox";
import * as domain from "../domain/carriers.ts";
import { REPLAYED } from "../domain/idempotency.ts";
import * as printStatus from "../domain/print-status.ts";
import { recover } from "../domain/recovered.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, serve, write } = routesUnder("carriers");
const COLUMNS = ["gtin", "serial", "digital_link", "sgtin96_epc"] as const;

/** No value of these columns ever needs quotes: digits, hex, and a link that is percent-encoded. */
async function* csv(slices: AsyncGenerator<CarrierRow[]>) {
  yield `${COLUMNS.join(",")}\n`;
  for await (const rows of slices) yield rows.map((row) => `${COLUMNS.map((name) => row[name]).join(",")}\n`).join("");
}

async function* json(slices: AsyncGenerator<CarrierRow[]>) {
  let opening = '{"data":[';
  for await (const rows of slices) {
    yield opening + rows.map((row) => JSON.stringify(row)).join(",");
    opening = ",";
  }
  yield opening === "," ? "]}" : `${opening}]}`;
}

export const carriers: Route[] = [
  write({
    method: "POST",
    path: "/carriers/batch",
    scope: ["production:create"],
    says: "Allocate serials for a product's labels: numeric, unguessable, never repeated",
    body: CarrierBatch,
    example: { productId: "019a0000-0000-7000-8000-000000000000", count: 3 },
    replies: { 201: CarriersMade },
    refusals: ["NOT_FOUND", "ALREADY_VOIDED", "SERIALS_UNAVAILABLE"],
    audit: "print.serials_allocated",
    run: async ({ tx, by, body, deps }) => {
      const made = await domain.allocate(tx, by, body, deps.seal);
      return { status: 201, body: made, about: { subject: body.productId, details: { allocated: made.allocated } } };
    },
  }),
  serve({
    path: "/carriers/export",
    scope: ["production:view", "identifiers:read"],
    says: "A product's carriers as CSV or JSON, streamed; printState=failed is the re-print file. Voided serials are left out of what is to print",
    query: CarrierQuery,
    replies: { 200: ["text/csv", "application/json"] },
    jsonShape: CarriersExported,
    sends: ["Content-Disposition"],
    refusals: ["NOT_FOUND", "INVALID_PRINT_STATE"],
    run: async ({ caller, query: { productId, format = "csv", printState }, deps }) => {
      if (printState !== undefined && !domain.isPrintState(printState)) throw domain.unknownState(printState);
      const from = { ...caller, productId, state: printState };
      const slices = await domain.exported(deps.store, from, deps.origin());
      const [type, text] = format === "csv" ? (["text/csv", csv] as const) : (["application/json", json] as const);
      const name = `carriers-${productId}${printState === undefined ? "" : `-${printState}`}.${format}`;
      const headers = { "content-type": `${type}; charset=utf-8`, "content-disposition": `attachment; filename="${name}"` };
      return { status: 200, body: Readable.from(text(slices)), headers };
    },
  }),
  read({
    path: "/carriers/{serial}",
    scope: ["production:view", "identifiers:read"],
    says: "One carrier, with what was last reported of its print",
    params: closed({ serial: Type.String({ minLength: 1, maxLength: 64 }) }),
    replies: { 200: Carrier },
    run: async ({ tx, caller, params, deps }) => ({ status: 200, body: await domain.get(tx, caller, params.serial, deps.origin()) }),
  }),
  write({
    method: "POST",
    path: "/carriers/print-status",
    scope: ["epcis:capture", "production:create"],
    says: "Report what became of up to 1,000 labels; the last outcome of a serial stands, and saying the same again changes nothing",
    body: PrintStatus,
    bodyMaxBytes: limits.RESULTS_BODY_MAX_BYTES,
    example: { results: [{ serial: "123456789", status: "failed", reason: "ribbon wrinkled", deviceId: "zd621r" }] },
    replies: { 200: PrintStatusTaken },
    audit: "print.status_reported",
    run: async ({ tx, by, body, idempotencyKey, deps }) => {
      const { taken, replayed } = await printStatus.report(tx, by, body.results, {
        keyless: idempotencyKey === undefined,
        origin: deps.origin(),
      });
      const { printed, failed, unknown } = taken;
      const details = { printed: printed.length, failed: failed.length, unknown: unknown.length };
      return { status: 200, body: taken, headers: replayed ? REPLAYED : {}, quiet: replayed, about: { subject: null, details } };
    },
  }),
  write({
    method: "POST",
    path: "/carriers/recover",
    scope: ["aidc:write", "production:create"],
    says: "Bring back up to 1,000 labels that were printed after the backup that this cloud was restored from; saying the same again changes nothing",
    body: LostLabels,
    bodyMaxBytes: limits.RESULTS_BODY_MAX_BYTES,
    example: { labels: [{ gtin: "4006381333931", serial: "123456789", reason: "sealed before the restore" }] },
    replies: { 200: Recovered },
    refusals: ["SERIALS_UNAVAILABLE"],
    audit: "print.labels_recovered",
    run: async ({ tx, by, body, deps }) => {
      const recovered = await recover(tx, by, body.labels, deps.seal, deps.origin());
      const count = (wanted: string) => recovered.results.filter(({ outcome }) => outcome === wanted).length;
      const details = { recovered: count("recovered"), known: count("known"), refused: count("refused") };
      return { status: 200, body: recovered, about: { subject: null, details } };
    },
  }),
];
