// The IPP driver against a real CUPS: what the queue says of a label is compared with what its printer saw of it.
import { createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { blank, fill } from "../../agent/bitmap.ts";
import { attests, type Profile } from "../../agent/printers/driver.ts";
import { driver } from "../../agent/printers/ipp.ts";
import { stringsOf } from "../../agent/printers/ipp-codec.ts";
import { endpointOf } from "../../agent/printers/ipp-endpoint.ts";
import { type Cups, cupsMissing, startCups } from "../../fixtures/cups.ts";
import { listening } from "../../fixtures/listening.ts";

if (cupsMissing) process.stderr.write(`SKIPPED: nothing is tested against a real CUPS: ${cupsMissing}\n`);

describe.skipIf(cupsMissing !== undefined)("through a real CUPS", () => {
  let cups: Cups;
  const servers: Server[] = [];
  const sockets = new Set<Socket>();
  beforeAll(async () => {
    cups = await startCups();
  });
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    for (const server of servers) server.close();
    await cups?.end();
  });

  const profile: Profile = {
    name: "cups",
    dpi: 203,
    simulated: true,
    timing: { answerMs: 5_000, pollMs: 50, completionMs: 40_000, stallMs: 20_000 },
  };
  const bitmap = blank(400, 200);
  fill(bitmap, 50, 50, 100, 100);
  let names = 0;

  /** A queue in front of a printer that does as `meet` says with each connection. */
  async function queueTo(meet: (socket: Socket) => void, policy?: string) {
    const server = createServer((socket) => {
      sockets.add(socket.on("error", () => {}));
      meet(socket);
    });
    servers.push(server);
    const port = await listening(server);
    names += 1;
    const url = cups.queue(`q${names}`, `socket://127.0.0.1:${port}`, policy);
    return { url, printer: await driver.open(url, profile) };
  }
  const collecting = (into: Buffer[]) => (socket: Socket) => void socket.on("data", (bytes: Buffer) => into.push(bytes));
  const tokenOf = (name: string) => `pj_${name}/attempt-${names}`;

  test("a label arrives at the printer byte for byte; CUPS calls it completed, and that attests nothing", async () => {
    const got: Buffer[] = [];
    const { printer } = await queueTo(collecting(got));
    expect(await printer.preflight()).toMatchObject({ ready: true, faults: [] });
    expect(await printer.probe()).toMatchObject({ ceiling: "D", status: true });
    const label = await printer.encode(bitmap, { token: tokenOf("whole") });
    const submission = await printer.submit(label);
    expect(submission).toMatchObject({ bytesAccepted: label.bytes.length, spoolId: expect.stringMatching(/^\d+$/) });
    const completion = await printer.awaitCompletion(submission);
    expect(completion).toMatchObject({ outcome: "unknown", reason: expect.stringContaining("completed"), evidence: { grade: "D" } });
    expect(attests(completion.evidence.grade)).toBe(false);
    await expect.poll(() => Buffer.concat(got).equals(label.bytes)).toBe(true);

    const again = await (await driver.open((await queueTo(() => {})).url, profile)).submit(label);
    expect(again.spoolId).not.toBe(submission.spoolId); // another queue, another paper
    expect(await printer.submit(label)).toMatchObject({ spoolId: submission.spoolId });
    expect(Buffer.concat(got).length).toBe(label.bytes.length); // sent a second time, it was found by its name and not sent
  });

  /** A label larger than all buffers on the way, whose printer drops the connection in the middle of it. */
  async function cutOff(policy: string) {
    const { printer } = await queueTo((socket) => socket.once("data", () => socket.resetAndDestroy()), policy);
    const status = await printer.preflight();
    const submission = await printer.submit({ bytes: Buffer.alloc(24_000_000, 1), sha256: "", token: tokenOf(policy) });
    return { printer, status, completion: await printer.awaitCompletion(submission) };
  }

  test("a printer that drops the connection in the middle of a label: CUPS aborts the job, and the label is unknown", async () => {
    const { completion } = await cutOff("abort-job");
    expect(completion).toMatchObject({ outcome: "unknown", reason: expect.stringContaining("aborted"), toDestroy: null });
  });

  test("a queue that stops there would send all of it again when it is enabled: the label is taken back", async () => {
    const { printer, status, completion } = await cutOff("stop-printer");
    expect(status).toMatchObject({ ready: true, warnings: [expect.stringContaining("abort-job")] });
    expect(completion).toMatchObject({ outcome: "unknown", reason: expect.stringMatching(/would be sent again: cancelled/) });
    expect(await printer.flush()).toMatchObject({ clean: false });
  });

  test("a printer that never reads keeps the label: it isn't done, and after its time it is unknown", async () => {
    const begun = Promise.withResolvers<void>();
    const { printer } = await queueTo((socket) => begun.resolve(void socket.pause()));
    const submission = await printer.submit(await printer.encode(bitmap, { token: tokenOf("stuck") }));
    await begun.promise;
    const completion = await printer.awaitCompletion(submission, { withinMs: 300 });
    expect(["unknown", "blocked"]).toContain(completion.outcome);
    expect(completion.reason).toContain("processing");
    expect((await printer.flush()).clean).toBe(false); // it had gone to the printer
  });

  test("a queue that waits for its printer to finish somebody's label takes ours behind it", async () => {
    const { url, printer } = await queueTo((socket) => void socket.pause());
    const theirs = await driver.open(url, profile);
    await theirs.submit(await theirs.encode(bitmap, { token: tokenOf("theirs") }));
    const reasons = async () => {
      const { printer: found } = await endpointOf(url, 5_000).ask("Get-Printer-Attributes", { wants: ["printer-state-reasons"] });
      return stringsOf(found[0], "printer-state-reasons");
    };
    await expect.poll(reasons).toEqual(["cups-waiting-for-job-completed"]);
    expect(await printer.preflight()).toMatchObject({ ready: true, faults: [], warnings: [] });
  });

  test("a queue that would send a label twice by itself is refused before a byte goes", async () => {
    const got: Buffer[] = [];
    const { printer } = await queueTo(collecting(got), "retry-job");
    expect(await printer.preflight()).toMatchObject({ ready: false, faults: [{ words: expect.stringContaining("abort-job") }] });
    const submission = await printer.submit(await printer.encode(bitmap, { token: tokenOf("retry") }));
    expect(submission).toMatchObject({ bytesAccepted: 0, retryable: false, fault: expect.stringContaining("retry-job") });
    expect(got).toEqual([]);
  });

  test("a queue that doesn't exist took nothing", async () => {
    const { url } = await queueTo(() => {});
    const printer = await driver.open(url.replace(/q\d+$/, "nobody"), profile);
    expect(await printer.submit(await printer.encode(bitmap))).toMatchObject({
      bytesAccepted: 0,
      fault: expect.stringContaining("does not exist"),
    });
  });

  test("after a restart CUPS still knows the label by its name, so that it isn't sent again", async () => {
    const got: Buffer[] = [];
    const { printer } = await queueTo(collecting(got));
    const label = await printer.encode(bitmap, { token: tokenOf("restart") });
    const submission = await printer.submit(label);
    await printer.awaitCompletion(submission);
    await cups.restart();
    expect(await printer.submit(label)).toMatchObject({ spoolId: submission.spoolId });
    await expect.poll(() => Buffer.concat(got).length).toBe(label.bytes.length);
  });
});
