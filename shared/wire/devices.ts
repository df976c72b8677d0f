// A device: a station's identity. What it may do hangs on its key, what it is hangs on what it says of itself.
import { Type } from "typebox";
import { closed, Id, Instant, nullable, Secret, type Static, Word } from "./common.ts";
import { Needs } from "./jobs.ts";

const place = { station: Type.Optional(nullable(Word)), capabilities: Type.Optional(Needs) };
export const DeviceCreate = closed({ name: Word, ...place, api_key_id: Type.Optional(Id) });
export type DeviceCreate = Static<typeof DeviceCreate>;
export const DevicePatch = closed({ name: Type.Optional(Word), ...place });
export type DevicePatch = Static<typeof DevicePatch>;

const Printer = Type.Object(
  { name: Type.String({ maxLength: 64 }), status: Type.String({ maxLength: 200 }) },
  { description: "And whatever else the station tells of it" },
);
/** What a station says of itself, over HTTP or MQTT. */
export const StationReport = closed({
  status: Type.Optional(Type.Enum(["online", "degraded", "offline"])),
  version: Type.Optional(Type.String({ maxLength: 64 })),
  buffer_depth: Type.Optional(Type.Integer({ minimum: 0 })),
  printers: Type.Optional(Type.Array(Printer, { maxItems: 32 })),
});
export type StationReport = Static<typeof StationReport>;

export const Device = closed({
  id: Id,
  name: Type.String(),
  station: nullable(Type.String()),
  capabilities: Needs,
  api_key_id: Id,
  status: Type.Enum(["online", "offline", "degraded"]),
  printers: Type.Array(Printer),
  buffer_depth: nullable(Type.Integer()),
  version: nullable(Type.String()),
  last_seen: nullable(Instant),
  created_at: Instant,
  updated_at: Instant,
});
export type Device = Static<typeof Device>;
const Key = closed({
  id: Id,
  scopes: Type.Array(Type.String()),
  prefix: Type.String(),
  secret: Secret,
});
export const DeviceMade = closed({ device: Device, key: Type.Optional(Key) });

const AtLeastOne = Type.Integer({ minimum: 1 });
/** What a station needs to know of its cloud. */
export const Station = closed({
  device: Device,
  tenant: closed({ id: Id, sandbox: Type.Boolean() }),
  poll_interval_ms: Type.Integer({ minimum: 1, maximum: 86_400_000 }), // outside of this a timer waits for nothing
  mqtt: nullable(closed({ url: Type.String(), wake: Type.String(), status: Type.String(), telemetry: Type.String() })),
  limits: closed({ claims: AtLeastOne, results: AtLeastOne, blob_bytes: AtLeastOne, lease_max_seconds: AtLeastOne }),
});
export type Station = Static<typeof Station>;
