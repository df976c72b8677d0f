// The embedded broker's places where there are more stations than places: whose they are.
import { EventEmitter } from "node:events";
import type { Client } from "aedes";
import { expect, onTestFinished, test } from "vitest";
import { stationGate } from "../../cloud/adapters/station-gate.ts";
import { createLog } from "../../cloud/log.ts";
import { createMetrics } from "../../cloud/metrics.ts";
import type { Authenticate } from "../../cloud/auth.ts";

/** Six places or more, and who has them; a device's key is its id, which begins with its tenant. */
function somePlaces(places = 6) {
  const lines: string[] = [];
  const log = createLog("warn", { stream: { write: (line: string) => void lines.push(line) }, exit: () => {}, die: () => {} } as never);
  let looks = 0;
  const seen = <T>(it: T) => ((looks += 1), it);
  const authenticate = (async ({ "x-api-key": key }: Record<string, string>) => ({
    caller: {
      get tenantId() {
        return seen(key?.[0]);
      },
      get deviceId() {
        return seen(key);
      },
    },
    expired: false,
  })) as never as Authenticate;
  const gate = stationGate({ authenticate, log, metrics: createMetrics() }, places);
  onTestFinished(() => gate.end());
  const there: string[] = [];
  const come = async (deviceId: string) => {
    const conn = Object.assign(new EventEmitter(), { destroyed: false });
    const leave = () => void there.splice(there.indexOf(deviceId), 1);
    const close = (done?: () => void) => void setImmediate(() => (leave(), done?.(), conn.emit("close")));
    await gate.admit({ conn, close } as never as Client, deviceId, deviceId);
    expect(there).not.toContain(deviceId); // the broker would forget both, where they come under one name
    there.push(deviceId);
    return () => (leave(), conn.emit("close"));
  };
  return { there, come, looks: () => looks, told: () => lines.filter((line) => line.includes('"mqtt-full"')).length };
}

test("where all places are taken, a tenant that has few takes one of the tenant that has most, down to as many as its own", async () => {
  const { there, come, told } = somePlaces();
  for (const id of ["a1", "a2", "a3", "a4", "a5", "b1"]) await come(id);
  expect(told()).toBe(0);
  for (const id of ["b2", "c1"]) await come(id);
  expect(there).toEqual(["a1", "a2", "a3", "b1", "b2", "c1"]); // who came last goes first
  await come("c2");
  expect(there).toEqual(["a1", "a2", "b1", "b2", "c1", "c2"]);
  for (const id of ["a9", "b9", "c9"]) await expect(come(id)).rejects.toThrow("all places for stations are taken");
  expect(told()).toBe(1);
});

test("where all places are taken, a device that lost its line without a word takes its own, and a place that is left is anybody's", async () => {
  const { there, come } = somePlaces();
  const leave = await come("a1");
  for (const id of ["a2", "a3", "a4", "a5", "a6"]) await come(id);
  await come("a3");
  expect(there).toEqual(["a1", "a2", "a4", "a5", "a6", "a3"]);
  await expect(come("a7")).rejects.toThrow("all places");
  leave();
  await come("a7");
  expect(there).toEqual(["a2", "a4", "a5", "a6", "a3", "a7"]);
});

test("what it takes to let one in, or to refuse it where all places are taken, is no more where many are there", async () => {
  const { come, looks } = somePlaces(200);
  const costOf = async (id: string) => {
    const before = looks();
    await come(id).catch(() => {});
    return looks() - before;
  };
  const first = await costOf("a0");
  for (let n = 1; n < 199; n += 1) await come(`a${n}`);
  expect(await costOf("a199")).toBe(first);
  expect(await costOf("a200")).toBeLessThanOrEqual(2 * first);
});
