// A question waits for the device's silence, not for the station's own: over real sockets, to a device on a thread of its own.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, type onTestFinished, test } from "vitest";
import { systemClock } from "../../agent/clock.ts";
import { openPort } from "../../agent/port.ts";
import { dialogue } from "../../agent/printers/dialogue.ts";
import { encodeIpp } from "../../agent/printers/ipp-codec.ts";
import { endpointOf } from "../../agent/printers/ipp-endpoint.ts";

type Ends = { onTestFinished: typeof onTestFinished };
const ANSWER_MS = 400;
const TAKES_MS = 50;

/** `server` is the source of one, which says `answer` a moment after it was asked. */
async function device(ends: Ends, server: string, answer: unknown = null): Promise<number> {
  const source = `const { parentPort, workerData } = require("node:worker_threads");
    const later = (act) => setTimeout(act, ${TAKES_MS});
    const server = ${server};
    server.listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`;
  const worker = new Worker(source, { eval: true, workerData: answer });
  ends.onTestFinished(async () => void (await worker.terminate()));
  return ((await once(worker, "message")) as [number])[0];
}
async function talkTo(ends: Ends, answer: string | null) {
  const says = `require("node:net").createServer((socket) =>
    socket.on("error", () => {}).on("data", () => workerData && later(() => socket.write(workerData))))`;
  const line = await openPort(`tcp://127.0.0.1:${await device(ends, says, answer)}`);
  ends.onTestFinished(() => line.end());
  const lex = (bytes: Uint8Array) => [Buffer.from(bytes).toString("latin1")];
  return dialogue<string>(line, systemClock, lex, () => {});
}
/** This thread, not the device's. */
const standStill = (ms: number) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

test("an answer that came while the station stood still is heard", async (t) => {
  const talk = await talkTo(t, "here");
  const heard = talk.hear((answer) => answer, ANSWER_MS);
  await talk.send("?", ANSWER_MS);
  standStill(2 * ANSWER_MS);
  expect(await heard).toBe("here");
});

test("and so is a print queue's", async (t) => {
  const answer = encodeIpp({ code: 0, requestId: 1, groups: [] });
  const port = await device(t, `require("node:http").createServer((_, reply) => later(() => reply.end(workerData)))`, answer);
  const asked = endpointOf(`ipp://127.0.0.1:${port}/printers/label`, ANSWER_MS).ask("Get-Printer-Attributes");
  await new Promise((resolve) => setTimeout(resolve, TAKES_MS / 2));
  standStill(2 * ANSWER_MS);
  expect(await asked).toMatchObject({ code: 0 });
});

test("a device that says nothing is silent once its time is up, however long the station stood still", async (t) => {
  const talk = await talkTo(t, null);
  await talk.send("?", ANSWER_MS);
  expect(await talk.hear((answer) => answer, ANSWER_MS)).toBe(undefined);
  const late = talk.hear((answer) => answer, ANSWER_MS);
  standStill(2 * ANSWER_MS);
  expect(await late).toBe(undefined);
});
