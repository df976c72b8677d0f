// A print queue's word is grade D at best: no state it reports attests a label, and no lost answer makes one print twice.
import { createServer } from "node:http";
import { createServer as createTcpServer, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
// @ts-expect-error -- it comes without types
import independent from "@sealsystems/ipp";
import * as fc from "fast-check";
import { Value } from "typebox/value";
import { afterEach, describe, expect, test } from "vitest";
import { evidenceShapes } from "#shared/wire/evidence.ts";
import { blank, fill } from "../../agent/bitmap.ts";
import { attests, type Profile } from "../../agent/printers/driver.ts";
import { driver } from "../../agent/printers/ipp.ts";
import { conditionOf, jobOf } from "../../agent/printers/ipp-answers.ts";
import {
  decodeIpp,
  encodeIpp,
  firstOf,
  GROUPS,
  groupsOf,
  OPERATIONS,
  stringsOf,
  TAGS,
  type Written,
} from "../../agent/printers/ipp-codec.ts";
import { reportOf } from "../../agent/standing.ts";
import type { State } from "../../agent/state.ts";
import { freePort } from "../../fixtures/free-port.ts";
import { listening } from "../../fixtures/listening.ts";
import { QUEUE_FAULTS, type QueueFault, startQueue } from "../../fixtures/printers/ipp.ts";
import { grayOfPng } from "../../fixtures/scanners/optics.ts";
import { world } from "../world.ts";

const after: (() => unknown)[] = [];
afterEach(async () => {
  for (const act of after.splice(0).toReversed()) await act();
});
const profile: Profile = {
  name: "queue",
  dpi: 203,
  simulated: true,
  timing: { answerMs: 2_000, pollMs: 20, completionMs: 30_000, stallMs: 2_000 },
};
const bitmap = blank(100, 50);
fill(bitmap, 10, 10, 30, 20);
const TOKEN = "pj_01jd2m4x8v6q0000000000abcd/0197f1c2-7c2e-7000-8000-000000000001";

async function connected(fault: QueueFault = "none", port = 0) {
  const queue = await startQueue({ port });
  after.push(() => queue.end());
  queue.set(fault);
  const printer = await driver.open(queue.url, profile);
  return { queue, printer, label: await printer.encode(bitmap, { token: TOKEN }) };
}
/** Under these nothing more ever happens by itself. */
const endless = new Set<QueueFault>(["queue-paused", "media-empty", "lost-before-taken"]);
async function printed(fault: QueueFault) {
  const all = await connected(fault);
  const submission = await all.printer.submit(all.label);
  const completion = await all.printer.awaitCompletion(submission, endless.has(fault) ? { withinMs: 150 } : {});
  return { ...all, submission, completion };
}

describe("a label through a queue", () => {
  test("comes out as it was drawn, under the job's and the attempt's name, and still isn't attested", async () => {
    const { queue, submission, completion, label } = await printed("none");
    expect(submission).toMatchObject({
      token: TOKEN,
      bytesOffered: label.bytes.length,
      bytesAccepted: label.bytes.length,
      retryable: false,
      spoolId: "1",
    });
    expect(queue.jobs()).toEqual([{ id: 1, name: TOKEN, state: "completed" }]);
    const [png = Buffer.alloc(0)] = queue.labels;
    expect(png.equals(label.bytes)).toBe(true);
    const { gray, width } = grayOfPng(png);
    expect([gray[12 * width + 12], gray[0]]).toEqual([0, 255]);
    expect(png.includes("pHYs")).toBe(true);
    expect(completion).toMatchObject({
      outcome: "unknown",
      reason: expect.stringContaining("that is no proof of a label"),
      toDestroy: null,
    });
    expect(completion.evidence).toMatchObject({ grade: "D", simulated: true });
  });

  test.each(QUEUE_FAULTS)("%s: nothing it says attests, and at most one label comes of it", async (fault) => {
    const { queue, submission, completion } = await printed(fault);
    expect(completion.outcome).not.toBe("confirmed");
    expect(attests(completion.evidence.grade)).toBe(false);
    expect(queue.labels.length).toBeLessThanOrEqual(fault === "retries" ? 2 : 1);
    if (submission.retryable) expect([queue.labels.length, queue.jobs().length, submission.bytesAccepted]).toEqual([0, 0, 0]);
    if (completion.outcome === "failed") expect(queue.labels).toEqual([]);
  });

  test.each([
    ["completed-not-printed", "unknown", "no proof"],
    ["completed-refused", "unknown", "Unable to add document"],
    ["aborted-mid-label", "unknown", "Broken pipe"],
    ["aborted-before", "failed", "before any of it went to the printer"],
    ["held", "blocked", "job-hold-until-specified"],
    ["queue-paused", "blocked", "the queue is paused"],
    ["media-empty", "blocked", "no labels"],
    ["document-refused", "failed", "Unsupported document-format"],
    ["not-accepting", "failed", "nothing of the label reached the queue"],
    ["busy", "failed", "nothing of the label reached the queue"],
    ["forbidden", "failed", "nothing of the label reached the queue"],
    ["forgets", "unknown", "no longer knows job 1"],
    ["lost-before-taken", "unknown", ""],
    ["lost-reply", "unknown", "no proof"],
    ["retry-policy", "failed", "printer-error-policy=abort-job"],
    ["no-lookup", "failed", "nothing of the label reached the queue"],
  ] as const)("%s is %s: %s", async (fault, outcome, says) => {
    expect((await printed(fault)).completion).toMatchObject({ outcome, reason: expect.stringContaining(says) });
  });

  test.each(["held", "queue-paused", "media-empty"] as const)(
    "%s is mended at the control port, and the label comes out",
    async (fault) => {
      const { queue, printer, label } = await connected(fault);
      await printer.submit(label);
      expect(queue.labels).toEqual([]);
      await fetch(queue.control.url, { method: "POST", body: '{"fault":"none"}' });
      await expect.poll(() => queue.labels.length).toBe(1);
      expect(queue.jobs().map(({ state }) => state)).toEqual(["completed"]);
    },
  );

  test("a refusal for good isn't tried again", async () => {
    expect((await printed("document-refused")).submission).toMatchObject({ retryable: false, bytesAccepted: 0 });
  });

  test.each(["busy", "too-many-jobs", "forbidden"] as const)(
    "%s says nothing against the label: no attempt is spent on it",
    async (fault) => {
      expect((await printed(fault)).submission).toMatchObject({ retryable: true, bytesAccepted: 0 });
    },
  );
});

test("as long as a queue's words may be, a person's word with them is evidence that the cloud takes", () => {
  const { words } = jobOf({
    "job-id": [1],
    "job-state": [9],
    "job-state-message": ["x".repeat(1_023)],
    "job-printer-state-message": ["y".repeat(1_023)],
  });
  expect(Value.Check(evidenceShapes.completion, { basis: `ipp: job 1 is completed${words}`, grade: "D" })).toBe(true);
});

test.each(["😀".repeat(200), `x${"😀".repeat(200)}`, "a\0b", "two\nlines"])(
  "whatever a stopped queue says of itself, the cloud takes the station's word with it: %j",
  async (message) => {
    const cloud = await world();
    const { key } = (await cloud.admin.post("/devices", { name: "line 1" })).body;
    const { faults } = conditionOf({ "printer-state": [5], "printer-state-message": [message] });
    const printer = { name: "queue", status: "blocked", words: String(faults[0]?.words), ceiling: "D", simulated: true };
    const said = reportOf({ status: "degraded", version: "1", buffer_depth: 0, printers: [printer] } as unknown as State);
    expect(await cloud.as(key.secret).post("/aidc/station", said)).toMatchObject({ status: 200, body: { status: "degraded" } });
    const { words } = jobOf({ "job-id": [1], "job-state": [9], "job-state-message": [`${"x".repeat(998)}${message}`] });
    expect(words).toMatch(/^[^\p{Cc}\p{Cs}]*$/u);
  },
);

test.each([
  ["cups-waiting-for-job-completed", [], []], // a printer that takes its time over a label, whosever it is
  ["cups-remote-processing", [], []],
  ["cups-ipp-missing-job-history", [], ["cups-ipp-missing-job-history"]], // said of the printer for good, once it was met
  ["cups-remote-stopped", ["cups-remote-stopped"], []],
  ["connecting-to-device", ["the queue doesn't reach its printer"], []],
])("%s is what CUPS says of a queue: it stands in the way of a label, is worth knowing, or neither", (reason, inTheWay, worthKnowing) => {
  const { faults, warnings } = conditionOf({ "printer-state": [4], "printer-state-reasons": [reason] });
  expect([faults.map(({ words }) => words), warnings]).toEqual([inTheWay, worthKnowing]);
});

test("a queue that speaks IPP 1.1 alone, as RFC 8011 has it, prints as well", async () => {
  const queue = await startQueue();
  after.push(() => queue.end());
  const front = createServer((request, response) => {
    void buffer(request).then(async (asked) => {
      const answer = [0x01, 0x01, 0x05, 0x03, ...asked.subarray(4, 8), 0x03]; // server-error-version-not-supported
      const behind = () => fetch(`http://127.0.0.1:${queue.port}/`, { method: "POST", body: new Uint8Array(asked) });
      response.end(asked[0] === 1 ? Buffer.from(await (await behind()).arrayBuffer()) : Buffer.from(answer));
    });
  });
  const port = await listening(front);
  after.push(() => front.close());
  const printer = await driver.open(`ipp://127.0.0.1:${port}/printers/label`, profile);
  expect((await printer.preflight()).faults).toEqual([]);
  const submission = await printer.submit(await printer.encode(bitmap, { token: TOKEN }));
  expect(submission).toMatchObject({ spoolId: "1", retryable: false });
  await printer.awaitCompletion(submission);
  expect(queue.labels).toHaveLength(1);
});

describe("a lost answer never makes a second label", () => {
  test("the label is found by its name, and sending it again sends nothing", async () => {
    const { queue, printer, label, submission } = await printed("lost-reply");
    expect(submission).toMatchObject({ spoolId: "1", retryable: false });
    queue.set("none");
    for (let n = 0; n < 3; n += 1) expect(await printer.submit(label)).toMatchObject({ spoolId: "1", retryable: false });
    expect([queue.labels.length, queue.jobs().length]).toEqual([1, 1]);
  });
  test("it is found as well where the queue says in which language its name is", async () => {
    const queue = await startQueue();
    after.push(() => queue.end());
    const [plain, worded] = [Buffer.from("\x42\0\x08job-name\0", "latin1"), Buffer.from("\x36\0\x08job-name\0", "latin1")]; // nameWithLanguage
    const length = TOKEN.length; // below 256, so that the first byte of each length is 0
    const front = createServer((request, response) => {
      void buffer(request).then(async (asked) => {
        const answer = await fetch(`http://127.0.0.1:${queue.port}/`, { method: "POST", body: new Uint8Array(asked) });
        const bytes = Buffer.from(await answer.arrayBuffer());
        const at = bytes.indexOf(plain);
        const language = Buffer.from([length + 6, 0, 2, 0x65, 0x6e, 0, length]);
        response.end(at < 0 ? bytes : Buffer.concat([bytes.subarray(0, at), worded, language, bytes.subarray(at + plain.length + 1)]));
      });
    });
    const port = await listening(front);
    after.push(() => front.close());
    const printer = await driver.open(`ipp://127.0.0.1:${port}/printers/label`, profile);
    const label = await printer.encode(bitmap, { token: TOKEN });
    for (let n = 0; n < 2; n += 1) expect(await printer.submit(label)).toMatchObject({ spoolId: "1", retryable: false });
    expect(queue.jobs()).toHaveLength(1);
  });
  test("after a crash of the agent a new connection finds it as well", async () => {
    const { queue, label } = await printed("none");
    const another = await driver.open(queue.url, profile);
    expect(await another.submit(label)).toMatchObject({ spoolId: "1" });
    expect(queue.labels.length).toBe(1);
  });
  test("two at once under one name are one label", async () => {
    const { queue, printer, label } = await connected();
    const [one, two] = await Promise.all([printer.submit(label), printer.submit(label)]);
    expect([one.spoolId, two.spoolId, queue.jobs().length]).toEqual(["1", "1", 1]);
  });
  test("a queue that isn't there took nothing", async () => {
    const { queue, printer, label } = await connected();
    await queue.end();
    after.length = 0;
    expect(await printer.submit(label)).toMatchObject({
      bytesAccepted: 0,
      retryable: true,
      fault: expect.stringContaining("ECONNREFUSED"),
    });
    expect(await printer.preflight()).toMatchObject({ ready: false, faults: [{ name: "offline" }] });
  });
  test("a queue that restarts while a label is under way is asked again when it is back", async () => {
    const { queue, printer, label } = await connected("media-empty", await freePort());
    const submission = await printer.submit(label);
    const waiting = printer.awaitCompletion(submission);
    await queue.restart(100);
    queue.set("none");
    expect(await waiting).toMatchObject({ outcome: "unknown", reason: expect.stringContaining("completed") });
    expect(queue.labels.length).toBe(1);
  });
});

/** A queue with one job, of which it says what it is told to say. */
async function queueThatSays(said: (asked: string) => { code?: number; job?: Written["attributes"] }) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      const { code, requestId } = decodeIpp(body);
      const operation = Object.entries(OPERATIONS).find(([, one]) => one === code)?.[0] ?? "";
      asked.push(operation);
      const answer = said(operation);
      const groups = answer.job ? [{ tag: GROUPS.job, attributes: answer.job }] : [];
      response.end(encodeIpp({ code: answer.code ?? 0, requestId, groups }));
    });
  });
  const port = await listening(server);
  after.push(() => server.close());
  const url = `ipp://127.0.0.1:${port}/printers/label`;
  const printer = await driver.open(url, profile);
  return { printer, asked, label: await printer.encode(bitmap, { token: TOKEN }) };
}
const jobThat = (name: string, state: number, rest: Written["attributes"] = {}): Written["attributes"] => ({
  "job-id": [TAGS.integer, 1],
  "job-name": [TAGS.name, name],
  "job-state": [TAGS.enum, state],
  ...rest,
});
const NEVER: Written["attributes"] = { "time-at-processing": [TAGS.noValue, ""] };
const [PENDING, PROCESSING, STOPPED, ABORTED] = [3, 5, 6, 8];

describe("a queue's job is never called unprinted unless it is ours and surely wasn't begun", () => {
  test("numbers begin anew where the queue restarts: what it says of another's job isn't said of the label, and that job is left alone", async () => {
    for (const job of [
      jobThat("somebody's invoice", ABORTED, NEVER),
      jobThat("invoice", PENDING, { "time-at-processing": [TAGS.integer, 7] }),
    ]) {
      const { printer, label, asked } = await queueThatSays((operation) => {
        if (operation === "Print-Job") return { job: jobThat(TOKEN, PENDING, NEVER) };
        return operation === "Get-Job-Attributes" ? { job } : {};
      });
      const completion = await printer.awaitCompletion(await printer.submit(label));
      expect(completion).toMatchObject({ outcome: "unknown", toDestroy: null, reason: expect.stringContaining("is another one now") });
      expect(asked).not.toContain("Cancel-Job");
    }
  });
  test.each([
    ["that it isn't known when", { "time-at-processing": [0x12, ""] }],
    ["that it doesn't know the question", { "time-at-processing": [0x10, ""] }],
    [
      "a date where the standard has seconds",
      { "time-at-processing": [0x31, "\u0007\u0007\u0001\u0001\u0001\u0001\u0001\u0000+\u0000\u0000"] },
    ],
    ["seconds as text", { "time-at-processing": [TAGS.text, "1234"] }],
    ["never, and that it was stopped on its way", { ...NEVER, "job-state-reasons": [TAGS.keyword, "processing-to-stop-point"] }],
  ] as [string, Written["attributes"]][])("asked when a job that was aborted had begun it says %s", async (_, rest) => {
    const { printer, label } = await queueThatSays((operation) => {
      if (operation === "Print-Job") return { job: jobThat(TOKEN, PENDING) };
      return operation === "Get-Job-Attributes" ? { job: jobThat(TOKEN, ABORTED, rest) } : {};
    });
    expect(await printer.awaitCompletion(await printer.submit(label))).toMatchObject({ outcome: "unknown", toDestroy: null });
  });
  test("nor where it was seen at work, whatever is said of it later", async () => {
    let looks = 0;
    const { printer, label } = await queueThatSays((operation) => {
      if (operation === "Print-Job") return { job: jobThat(TOKEN, PENDING, NEVER) };
      return operation === "Get-Job-Attributes" ? { job: jobThat(TOKEN, (looks += 1) > 1 ? ABORTED : PROCESSING, NEVER) } : {};
    });
    expect(await printer.awaitCompletion(await printer.submit(label))).toMatchObject({ outcome: "unknown", toDestroy: null });
  });
  test.each([
    ["aborted", ABORTED],
    ["back in its queue", PENDING],
  ])("nor where it was stopped at work, as by paper that ended, and is %s when it is asked for again", async (_, state) => {
    let now = STOPPED;
    const { printer, label, asked } = await queueThatSays((operation) => {
      if (operation === "Print-Job") return { job: jobThat(TOKEN, PENDING, NEVER) };
      if (operation === "Cancel-Job") now = ABORTED;
      return operation === "Get-Printer-Attributes" ? {} : { job: jobThat(TOKEN, now, NEVER) };
    });
    const submission = await printer.submit(label);
    expect(await printer.awaitCompletion(submission)).toMatchObject({ outcome: "blocked" });
    now = state;
    expect(await printer.awaitCompletion(submission, { withinMs: 200 })).toMatchObject({ outcome: "unknown", toDestroy: null });
    expect(asked.includes("Cancel-Job")).toBe(state === PENDING); // or it would be sent once more, whole
    expect(await printer.flush(TOKEN)).toMatchObject({ clean: false });
  });
  test("one that was at work when it was cancelled may have come out", async () => {
    let state = PROCESSING;
    const { printer, label } = await queueThatSays((operation) => {
      if (operation === "Cancel-Job") state = ABORTED;
      return operation === "Get-Printer-Attributes" ? {} : { job: jobThat(TOKEN, state, NEVER) };
    });
    await printer.submit(label);
    expect(await printer.flush(TOKEN)).toMatchObject({ clean: false });
  });
  test.each([0x0500, 0x0504, 0x0508])("a refusal with %i may come when the label is half out", async (code) => {
    for (const job of [jobThat(TOKEN, ABORTED), undefined]) {
      let isSent = false;
      const { printer, label } = await queueThatSays((operation) => {
        if (operation !== "Print-Job") return isSent && job ? { job } : {};
        isSent = true;
        return { code };
      });
      const submission = await printer.submit(label);
      expect(submission).toMatchObject({ retryable: false, bytesAccepted: label.bytes.length });
      expect(await printer.awaitCompletion(submission, { withinMs: 100 })).toMatchObject({ outcome: "unknown", toDestroy: null });
    }
  });
});

test("a queue that hangs up behind each answer without a word takes every label, and none is in doubt", async () => {
  const sockets = new Set<Socket>();
  const queue = createTcpServer((socket) => {
    let heard = Buffer.alloc(0);
    let isOver = false;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", (bytes: Buffer) => {
      if (isOver) return void socket.resetAndDestroy(); // as its machine does for a program that has closed
      heard = Buffer.concat([heard, bytes]);
      const head = heard.indexOf("\r\n\r\n");
      const length = Number(/content-length: (\d+)/i.exec(heard.toString("latin1"))?.[1]);
      if (head < 0 || heard.length < head + 4 + length) return;
      isOver = true;
      const { code, requestId } = decodeIpp(heard.subarray(head + 4));
      const isLabel = code === OPERATIONS["Print-Job"];
      const groups = isLabel ? [{ tag: GROUPS.job, attributes: jobThat(TOKEN, PENDING) }] : [];
      const answer = encodeIpp({ code: 0, requestId, groups });
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/ipp\r\ncontent-length: ${answer.length}\r\n\r\n`);
      socket.write(answer);
      setTimeout(() => socket.end(), 3);
    });
  });
  const port = await listening(queue);
  after.push(() => {
    for (const socket of sockets) socket.destroy();
    queue.close();
  });
  const printer = await driver.open(`ipp://127.0.0.1:${port}/printers/label`, profile);
  for (let n = 0; n < 30; n += 1) {
    const submission = await printer.submit(await printer.encode(bitmap, { token: TOKEN }));
    expect([n, submission]).toMatchObject([n, { spoolId: "1", retryable: false }]);
    expect(submission).not.toHaveProperty("fault");
  }
});

describe("what the queue says of itself", () => {
  test("its ceiling and what it can't show", async () => {
    const { printer } = await connected();
    expect(await printer.probe()).toMatchObject({
      driver: "ipp",
      identity: "SIMULATED print queue",
      ceiling: "D",
      fence: "ipp-job",
      rfid: "none",
      counter: false,
      simulated: true,
    });
  });
  test.each([
    ["none", true, []],
    ["queue-paused", false, ["paused"]],
    ["media-empty", false, ["media-out"]],
    ["not-accepting", false, ["paused"]],
    ["retry-policy", false, ["other"]],
  ] as const)("%s: ready is %s", async (fault, ready, names) => {
    const { printer } = await connected(fault);
    const status = await printer.preflight();
    expect([status.ready, status.faults.map(({ name }) => name)]).toEqual([ready, names]);
  });
  test("a label waiting in it can be taken back before it went to the printer, and after that not", async () => {
    const waiting = await connected("held");
    await waiting.printer.submit(waiting.label);
    expect(await waiting.printer.flush()).toMatchObject({ clean: true, waiting: 0 });
    waiting.queue.set("none");
    expect(waiting.queue.labels).toEqual([]);
    const begun = await connected("media-empty");
    await begun.printer.submit(begun.label);
    expect(await begun.printer.flush()).toMatchObject({ clean: false, waiting: 1 });
  });
  test("a tag can't be written through it", async () => {
    const { printer } = await connected();
    await expect(printer.encode(bitmap, { epc: "30364433400D1EDCBE991A14" })).rejects.toMatchObject({ code: "LABEL_REFUSED" });
  });
  test.each(["ipp://", "ipp:x", "http://127.0.0.1:631/printers/x", "ipp://u@127.0.0.1/printers/x", "ipp://127.0.0.1/printers/x?y=1"])(
    "%s is refused as its address",
    async (url) => {
      await expect(driver.open(url, profile)).rejects.toThrow("isn't of the form ipp://HOST");
    },
  );
});

describe("the codec", () => {
  const library = independent as { parse(bytes: Buffer): Record<string, unknown>; serialize(message: object): Buffer };
  const message = {
    code: OPERATIONS["Print-Job"],
    requestId: 7,
    groups: [
      {
        tag: GROUPS.operation,
        attributes: {
          "attributes-charset": [TAGS.charset, "utf-8"] as [number, string],
          "attributes-natural-language": [TAGS.language, "en"] as [number, string],
          "printer-uri": [TAGS.uri, "ipp://h/printers/x"] as [number, string],
          "job-name": [TAGS.name, "Größe/1"] as [number, string],
        },
      },
      { tag: GROUPS.job, attributes: { copies: [TAGS.integer, 1] as [number, number] } },
    ],
    data: Buffer.from("PNG"),
  };

  test("what it writes another implementation reads, and the other way round", () => {
    expect(library.parse(encodeIpp(message))).toEqual({
      version: "1.1",
      operation: "Print-Job",
      statusCode: expect.anything(),
      id: 7,
      "operation-attributes-tag": {
        "attributes-charset": "utf-8",
        "attributes-natural-language": "en",
        "printer-uri": "ipp://h/printers/x",
        "job-name": "Größe/1",
      },
      "job-attributes-tag": { copies: 1 },
      data: Buffer.from("PNG"),
    });
    const theirs = decodeIpp(
      library.serialize({
        operation: "Get-Jobs",
        id: 9,
        "operation-attributes-tag": {
          "attributes-charset": "utf-8",
          "printer-uri": "ipp://h/x",
          "requested-attributes": ["job-id", "job-name"],
          limit: 3,
        },
      }),
    );
    const [about] = groupsOf(theirs, GROUPS.operation);
    expect([theirs.code, theirs.requestId, stringsOf(about, "requested-attributes"), firstOf(about, "limit", "number")]).toEqual([
      0x0a,
      9,
      ["job-id", "job-name"],
      3,
    ]);
  });
  test("it writes the bytes that RFC 8010 prescribes", () => {
    const { code, requestId } = message;
    const bytes = encodeIpp({
      code,
      requestId,
      groups: [{ tag: GROUPS.operation, attributes: { "attributes-charset": [TAGS.charset, "utf-8"] } }],
    });
    expect(bytes.toString("hex")).toBe(
      "0101000200000007" +
        "01" +
        "47" +
        "0012" +
        Buffer.from("attributes-charset").toString("hex") +
        "0005" +
        Buffer.from("utf-8").toString("hex") +
        "03",
    );
  });
  test("values with no value, of unknown kinds and in collections don't put it out of step", () => {
    const strange = Buffer.from(
      "0200000000000001" +
        "02" +
        "13000161000401020304" +
        "7f00016200020102" +
        "34000163000037000000004a0000000178" +
        "2300096a6f622d7374617465000400000009" +
        "03",
      "hex",
    );
    const [job] = groupsOf(decodeIpp(strange), GROUPS.job);
    expect(firstOf(job, "job-state", "number")).toBe(9);
  });
  test("no bytes make it hang or answer nonsense: it reads them or says that it can't", () => {
    const whole = encodeIpp(message);
    fc.assert(
      fc.property(fc.nat(whole.length), fc.uint8Array({ maxLength: 40 }), (cut, noise) => {
        try {
          decodeIpp(Buffer.concat([whole.subarray(0, cut), noise]));
        } catch (error) {
          expect((error as Error).message).toMatch(/IPP/);
        }
      }),
      { numRuns: 3_000 },
    );
  });
  test("a length beyond the message, which makes the library run for ever, is refused", () => {
    expect(() => decodeIpp(Buffer.from(`02000000000000010144000161fffb${"00".repeat(20)}03`, "hex"))).toThrow("ends in the middle");
  });
});
