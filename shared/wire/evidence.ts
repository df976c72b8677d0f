// What a state's word has to bring: the evidence of each stage, under its own name. A station may say more than is asked for.
import { type Static, type TProperties, Type } from "typebox";
import { type Grade, grades } from "../states.ts";
import { EPC_96, Instant, nullable, Sha256 } from "./common.ts";

const Text = Type.String({ minLength: 1, maxLength: 2_000 });
/** As the machine that gave it has it. */
const GivenId = Type.Union([Text, Type.Integer()]);
const Epc = Type.String({ pattern: EPC_96, description: "SGTIN-96 in hex" });
const Dots = Type.Integer({ minimum: 1, maximum: 100_000 });
const Reading = Type.Union([Type.Integer(), Type.Record(Type.String(), Type.Unknown())], {
  description: "The printer's counter, or counters: `total` or `labels` is the one that a label moves",
});

/** Open for more, closed to lies: what is named has to be there and of its kind. */
const told = <Properties extends TProperties>(properties: Properties, description: string) =>
  Type.Object(
    { ...properties, simulated: Type.Optional(Type.Boolean({ description: "It comes from a simulated device" })) },
    { additionalProperties: true, description },
  );

const Rfid = told(
  { epc: Epc, tid: Type.Optional(Text), reader: Type.Enum(["printer", "independent"]) },
  "What was read back from the label's tag",
);

export const evidenceShapes = {
  render_manifest: told(
    {
      format: Text,
      renderer: Text,
      template: Text,
      width_dots: Dots,
      height_dots: Dots,
      dpi: Type.Integer({ minimum: 50, maximum: 5_000 }),
      payload: Type.String({ minLength: 1, maxLength: 4_000, description: "What the symbol holds: the job's digital_link" }),
      sha256: Sha256,
      epc: Type.Optional(Epc),
    },
    "The label as it was drawn",
  ),
  spool_receipt: told(
    {
      transport: Text,
      printer: Text,
      spool_id: nullable(GivenId),
      bytes: Type.Integer({ minimum: 1 }),
      sha256: Sha256,
      accepted_at: Instant,
    },
    "What the next machine accepted",
  ),
  completion: told(
    {
      basis: Text,
      grade: Type.Enum(Object.keys(grades) as Grade[]),
      before: Type.Optional(Reading),
      after: Type.Optional(Reading),
      voids: Type.Optional(Type.Integer({ minimum: 0, description: "Labels that came out void in between" })),
      token: Type.Optional(GivenId),
    },
    "Why the device knows that paper came out",
  ),
  scan_result: told(
    {
      decoded: Type.String({ minLength: 1, maxLength: 4_000 }),
      symbology: Text,
      decoder: Text,
      scanned_at: Instant,
      image_sha256: Type.Optional(Sha256),
      symbol_check: Type.Optional(Type.Unknown()),
      source: Type.Enum(["camera", "serial", "keyboard"]),
      rfid: Type.Optional(Rfid),
    },
    "What the printed symbol was decoded to",
  ),
  evidence_bundle: told({ sha256: Sha256 }, "SHA-256 of the RFC 8785 form of the attempt's items"),
};
export type Evidence = { [Name in keyof typeof evidenceShapes]: Static<(typeof evidenceShapes)[Name]> };

/** Whether any of it, however deep, comes from a simulated device. */
export const isSimulated = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  ((value as { simulated?: unknown }).simulated === true || Object.values(value).some(isSimulated));
