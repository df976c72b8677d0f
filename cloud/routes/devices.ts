// Devices over HTTP: registered with a key of their own, looked at, removed; and what a station and its cloud tell each other.
import { API } from "#shared/api.ts";
import { limits } from "#shared/limits.ts";
import { closed, IdParams, listOf, PageQuery } from "#shared/wire/common.ts";
import { Device, DeviceCreate, DeviceMade, DevicePatch, Station, StationReport } from "#shared/wire/devices.ts";
import * as domain from "../domain/devices.ts";
import { deviceOf } from "../domain/job-claims.ts";
import { type Reply, type Route, routesUnder } from "../route.ts";

const { read, write } = routesUnder("devices");
/** Its key lives and dies with it. */
const reply = (device: Device): Reply => ({
  status: 200,
  body: device,
  about: { subject: device.id, details: { name: device.name, keyId: device.api_key_id } },
});

export const devices: Route[] = [
  write({
    method: "POST",
    path: "/devices",
    scope: ["aidc:write"],
    says: "Register a device, with a key of its own unless it gets one that exists",
    body: DeviceCreate,
    example: { name: "line 1", station: "line-1", capabilities: ["qr", "rfid"] },
    replies: { 201: DeviceMade },
    sends: ["Location"],
    refusals: ["NOT_FOUND", "ALREADY_REVOKED"],
    audit: "device.created",
    replay: { hide: ["key.secret"] },
    run: async ({ tx, caller, body }) => {
      const { device, key } = await domain.create(tx, caller, body);
      const shown = key ? { key: { id: key.id, scopes: key.scopes, prefix: key.prefix, secret: key.secret } } : {};
      const headers = { location: `${API}/devices/${device.id}` };
      return { ...reply(device), status: 201, body: { device, ...shown }, headers };
    },
  }),
  read({
    path: "/devices",
    scope: ["aidc:read"],
    says: "The tenant's devices, newest first, with what was last heard of them",
    query: closed(PageQuery),
    replies: { 200: listOf(Device) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await domain.list(tx, caller, query) }),
  }),
  read({
    path: "/devices/{id}",
    scope: ["aidc:read"],
    says: "One device",
    params: IdParams,
    replies: { 200: Device },
    run: async ({ tx, caller, params }) => ({ status: 200, body: await domain.get(tx, caller, params.id) }),
  }),
  write({
    method: "PATCH",
    path: "/devices/{id}",
    scope: ["aidc:write"],
    says: "Change a device's name, station or capabilities",
    params: IdParams,
    body: DevicePatch,
    example: { station: "line-2" },
    replies: { 200: Device },
    audit: "device.updated",
    run: async ({ tx, caller, params, body }) => reply(await domain.patch(tx, caller, params.id, body)),
  }),
  write({
    method: "DELETE",
    path: "/devices/{id}",
    scope: ["aidc:write"],
    says: "Remove a device: its key dies, its leases end",
    params: IdParams,
    replies: { 204: "Removed" },
    audit: "device.deleted",
    run: async ({ tx, caller, params }) => {
      const { id, name, apiKeyId: keyId } = await domain.remove(tx, caller, params.id);
      return { status: 204, about: { subject: id, details: { name, keyId } } };
    },
  }),
  read({
    path: "/aidc/station",
    scope: ["aidc:read"],
    onlyDevices: true,
    says: "What a station needs to know of its cloud, with a device's key",
    replies: { 200: Station },
    run: async ({ tx, caller, deps }) => ({ status: 200, body: await domain.station(tx, caller, deviceOf(caller), deps.broker().url()) }),
  }),
  write({
    method: "POST",
    path: "/aidc/station",
    scope: ["aidc:write"],
    onlyDevices: true,
    says: "A station says how it is, with a device's key",
    body: StationReport,
    bodyMaxBytes: limits.STATION_REPORT_MAX_BYTES,
    example: { status: "online", version: "0.1.0", buffer_depth: 0, printers: [{ name: "zd621r", status: "ready" }] },
    replies: { 200: Device },
    audit: "device.reported",
    run: async ({ tx, caller, body }) => ({ ...reply(await domain.report(tx, caller.tenantId, deviceOf(caller), body)), quiet: true }),
  }),
];
