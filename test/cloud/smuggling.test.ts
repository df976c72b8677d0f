// Bytes that two parsers might read as two different requests: none of them brings a second request in behind the first.
import { randomUUID } from "node:crypto";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { world } from "../world.ts";

const w = await world();

/** All that comes back for these bytes until the socket is closed, or nothing more comes for so long. */
const speakFor = (quietMs: number, ...parts: string[]): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(w.url);
    let heard = "";
    const socket = connect(Number(port), hostname, () => {
      for (const part of parts) socket.write(part, "latin1");
    });
    socket.on("data", (chunk: Buffer) => (heard += chunk.toString("utf8")));
    socket.on("close", () => resolve(heard));
    socket.on("error", (error: Error & { code?: string }) => (error.code === "ECONNRESET" ? resolve(heard) : reject(error)));
    socket.setTimeout(quietMs, () => socket.destroy());
  });
const speak = (...parts: string[]) => speakFor(1_000, ...parts);
/** For what the server itself ends: however long a busy machine takes for it. */
const speakToTheEnd = (text: string) => speakFor(30_000, text);
const answers = (heard: string) => [...heard.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));

/** What would be a request of its own if it were let through; its id shows in the log wherever it is answered. */
const hidden = (more = "") => {
  const id = `smuggled-${randomUUID()}`;
  return { id, text: `GET /healthz HTTP/1.1\r\nhost: a\r\nx-correlation-id: ${id}\r\n${more}\r\n` };
};
const head = (...lines: string[]) => ["POST /api/v2/credentials/verify HTTP/1.1", "host: a", ...lines, "", ""].join("\r\n");
const chunked = (text: string) => `0\r\n\r\n${text}`;

test.each<[string, (text: string) => string]>([
  ["both lengths", (text) => head("content-length: 6", "transfer-encoding: chunked") + chunked(text)],
  ["both lengths, the other way round", (text) => head("transfer-encoding: chunked", `content-length: ${text.length + 5}`) + chunked(text)],
  ["two lengths that differ", (text) => head("content-length: 0", `content-length: ${text.length}`) + text],
  ["two lengths in one line", (text) => head(`content-length: 0, ${text.length}`) + text],
  ["a length with a sign", (text) => head("content-length: +0") + text],
  ["a length in hex", (text) => head("content-length: 0x0") + text],
  ["a negative length", (text) => head("content-length: -1") + text],
  ["a length that no number holds", (text) => head("content-length: 99999999999999999999") + text],
  ["a coding after chunked", (text) => head("transfer-encoding: chunked, identity") + chunked(text)],
  ["a coding that nobody knows", (text) => head("transfer-encoding: xchunked") + chunked(text)],
  ["chunked in two lines", (text) => head("transfer-encoding: identity", "transfer-encoding: chunked, cow") + chunked(text)],
  ["a blank before the colon", (text) => head("content-length : 0", "x: y") + text],
  ["a vertical tab around chunked", (text) => head("transfer-encoding: \vchunked") + chunked(text)],
  ["a NUL in a name", (text) => head("transfer-encoding\0: chunked") + chunked(text)],
  ["a bare LF after a header", (text) => `POST /healthz HTTP/1.1\r\nhost: a\ncontent-length: 0\r\n\r\n${text}`],
  ["bare LFs alone", (text) => `POST /healthz HTTP/1.1\nhost: a\ncontent-length: 0\n\n${text}`],
  ["a bare CR", (text) => `POST /healthz HTTP/1.1\r\nhost: a\rcontent-length: 0\r\n\r\n${text}`],
  ["a chunk's size with a sign", (text) => `${head("transfer-encoding: chunked")}+0\r\n\r\n${text}`],
  ["a chunk's size in 0x", (text) => `${head("transfer-encoding: chunked")}0x0\r\n\r\n${text}`],
  ["a chunk's size that overflows", (text) => `${head("transfer-encoding: chunked")}10000000000000000\r\n\r\n${text}`],
  ["a chunk longer than it says", (text) => `${head("transfer-encoding: chunked")}1\r\nab\r\n${chunked(text)}`],
  ["a chunk that ends in a bare LF", (text) => `${head("transfer-encoding: chunked")}2\n{}\n${chunked(text)}`],
  ["a chunk extension with a bare LF", (text) => `${head("transfer-encoding: chunked")}0;\n\r\n\r\n${text}`],
  ["a line that isn't a header", (text) => head("nonsense") + text],
  ["a version that isn't HTTP/1", (text) => `GET /healthz HTTP/9.9\r\nhost: a\r\n\r\n${text}`],
])("%s: nothing but refusals, and what follows is never heard as a request", async (_what, bytes) => {
  const { id, text } = hidden();
  const heard = await speak(bytes(text));
  expect(answers(heard).filter((status) => status < 400 || (status >= 500 && status !== 503))).toEqual([]); // 503: a busy machine sheds
  expect(w.logged().join("\n")).not.toContain(id);
});

test.each([
  ["none", ""],
  ["two", "host: a\r\nHost: b\r\n"],
  ["the same twice", "host: a\r\nhost: a\r\n"],
])("a request with another number of hosts than one is refused: %s", async (_what, hosts) => {
  for (const line of ["GET /healthz", "POST /api/v2/products", "GET /nowhere"]) {
    const heard = await speakToTheEnd(`${line} HTTP/1.1\r\n${hosts}content-length: 0\r\nconnection: close\r\n\r\n`);
    expect([answers(heard), heard]).toEqual([
      [400],
      expect.stringContaining('"code":"MALFORMED_REQUEST","message":"a request has one Host header'),
    ]);
  }
  const then = await speakToTheEnd(`GET /healthz HTTP/1.0\r\n${hosts}\r\n`);
  expect(answers(then)).toEqual([hosts === "" ? 200 : 400]); // a probe of then has none
});

test("the same second request is heard where it follows a whole one: the test would see it", async () => {
  const { id, text } = hidden("connection: close\r\n");
  const heard = await speakToTheEnd(`GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n${text}`);
  expect(answers(heard)).toEqual([200, 200]);
  await expect.poll(() => w.logged().join("\n")).toContain(id);
});

test("a header folded over two lines is one value and opens nothing", async () => {
  const { id, text } = hidden();
  const folded = await speakToTheEnd(
    `GET /healthz HTTP/1.1\r\nhost: a\r\nx-a: b\r\n transfer-encoding: chunked\r\nconnection: close\r\n\r\n${chunked(text)}`,
  );
  expect(answers(folded).length).toBe(1);
  expect(w.logged().join("\n")).not.toContain(id);
});

test("a refused body ends its connection, so that its rest isn't taken for a request", async () => {
  const { id, text } = hidden();
  const heard = await speak(`${head("content-type: application/json", "content-length: 9000000")}{`, "x".repeat(2_000_000), text);
  expect(answers(heard).length).toBeLessThanOrEqual(1);
  expect(w.logged().join("\n")).not.toContain(id);
});

test.each([
  ["\r\nset-cookie: a=b", "%0d%0aset-cookie:%20a=b"],
  ["\nx-injected: 1", "%0ax-injected:%201"],
])("an address with %j in it makes no header of its own", async (_text, encoded) => {
  for (const path of [`/01/${encoded}`, `/p/${encoded}`, `/api/v2/products/${encoded}`, `/nowhere/${encoded}?q=${encoded}`]) {
    const heard = await speakToTheEnd(`GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`);
    const [headers = ""] = heard.split("\r\n\r\n");
    expect(headers).not.toMatch(/^(set-cookie|x-injected)/im);
    expect(answers(heard)[0]).toBeGreaterThanOrEqual(400);
    expect(answers(heard)[0]).toBeLessThan(500);
  }
});
