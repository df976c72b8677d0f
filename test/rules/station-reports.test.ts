// What waits to be written of stations' words is bounded, in order, and never loses the last one.
import { expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { placeOf, topicsOf } from "#shared/mqtt.ts";
import { createMetrics } from "../../cloud/metrics.ts";
import { reportQueue } from "../../cloud/workers/station-listener.ts";

const at = (deviceId: string, kind: "status" | "telemetry" | "wake" = "telemetry") => topicsOf({ tenantId: "t", deviceId })[kind];
const say = (topic: string, text: string) => ({ topic, payload: Buffer.from(text), isRetained: false });
const textsOf = ([first]: ReturnType<ReturnType<typeof reportQueue>["take"]>) => first?.messages.map(({ payload }) => payload.toString());

test("a device's words are kept in order; in a flood the last of each topic stands", () => {
  const reports = reportQueue(createMetrics());
  reports.add(say(at("d"), "1"));
  reports.add(say(at("d", "status"), "offline"));
  for (let i = 2; i <= 9; i += 1) reports.add(say(at("d"), String(i)));
  reports.add(say(at("d", "status"), "online"));
  expect(textsOf(reports.take(10))).toEqual(["1", "offline", "2", "3", "9", "online"]);
  expect(reports.take(10)).toEqual([]);
});

test("more than may wait are dropped and counted, those of devices that wait already aside", async () => {
  const metrics = createMetrics();
  const reports = reportQueue(metrics);
  const most = limits.MQTT_REPORTS_MAX_ITEMS;
  for (let i = 0; i < most + 7; i += 1) reports.add(say(at(`d${i}`), "{}"));
  expect(await metrics.text()).toMatch(new RegExp(`mqtt_reports_waiting ${most}\\n[^]*mqtt_reports_dropped 7\\n`));
  expect(reports.take(most * 2)).toHaveLength(most);
  reports.add(say(at("d"), "{}"));
  expect(reports.take(1)).toHaveLength(1);
});

test("what is no station's word doesn't wait", async () => {
  const metrics = createMetrics();
  const reports = reportQueue(metrics);
  for (const topic of ["x", "imprimatur/t/d", "imprimatur/t/d/status/x", "imprimatur//d/status", "imprimatur/t/+/status"])
    reports.add(say(topic, "{}"));
  reports.add({ ...say(at("d"), "x"), payload: Buffer.alloc(limits.MQTT_PACKET_MAX_BYTES + 1) });
  reports.add(say(at("d", "wake"), "x"));
  reports.add(say(at("d", "status"), ""));
  expect(reports.take(10)).toEqual([]);
  expect(await metrics.text()).toContain("mqtt_junk 6\n");
  expect(placeOf(at("d", "status"))).toEqual({ tenantId: "t", deviceId: "d", kind: "status" });
});
