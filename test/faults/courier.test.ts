// One try against receivers of every temper, and names that change their mind: what it says, what it reads, and where it never knocks.
import { execFile, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createSocketServer, type Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { type CourierOptions, createCourier, type Errand } from "../../cloud/adapters/courier.ts";
import { startNameServer } from "../../fixtures/dns.ts";
import { listening } from "../../fixtures/listening.ts";
import { endsWithFile, freshFolder } from "../endings.ts";

const courierOf = (options: Partial<CourierOptions> = {}) => {
  const courier = createCourier({ allowPrivate: true, tryMaxMs: 30_000, ...options });
  endsWithFile(() => courier.close());
  return courier;
};
const courier = courierOf();
const hasty = courierOf({ tryMaxMs: 2_000 }); // for those that never answer

async function http(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  endsWithFile(() => server.closeAllConnections());
  return `http://127.0.0.1:${await listening(server)}/`;
}
async function raw(onData: (socket: Socket) => void): Promise<string> {
  const server = createSocketServer((socket) => {
    socket.on("error", () => {}); // resets are what these are about
    socket.once("data", () => onData(socket));
  });
  endsWithFile(() => server.close());
  return `http://127.0.0.1:${await listening(server)}/`;
}
const errand = (url: string): Errand => ({ url, deliveryId: "d", at: 1_700_000_000, body: '{"a":"ü"}', secrets: ["whsec_c2VjcmV0"] });

test.each([200, 204, 301, 302, 308, 400, 401, 404, 408, 410, 429, 500, 503])(
  "an answer of %i is told as it is, without following",
  async (status) => {
    let requests = 0;
    const url = await http((_request, response) => {
      requests += 1;
      response.writeHead(status, { location: "/elsewhere" }).end(status === 204 ? undefined : "body");
    });
    expect(await courier.send(errand(url))).toEqual({
      status,
      error: null,
      head: status === 204 ? null : "body",
      latencyMs: expect.any(Number),
    });
    expect(requests).toBe(1);
  },
);

test("one that hangs is given up when the time of a try is over", async () => {
  const { status, error, latencyMs } = await hasty.send(errand(await http(() => {})));
  expect([status, error]).toEqual([null, "no whole answer within 2 s"]);
  expect(latencyMs).toBeGreaterThanOrEqual(1_900);
});

test("one that drips its body is given up as well", async () => {
  const url = await http((_request, response) => {
    response.writeHead(200);
    const drip = setInterval(() => response.write("."), 100);
    response.once("close", () => clearInterval(drip));
  });
  expect(await hasty.send(errand(url))).toMatchObject({ status: null, error: "no whole answer within 2 s" });
});

test("one that sends a gigabyte is cut off, and its status counts", async () => {
  let sent = 0;
  const slice = Buffer.alloc(1_048_576, "x");
  const url = await http((_request, response) => {
    response.writeHead(200, { "content-length": 1_073_741_824 });
    const more = () => {
      while (!response.destroyed && sent < 1_073_741_824) {
        sent += slice.length;
        if (!response.write(slice)) return void response.once("drain", more);
      }
    };
    more();
  });
  const { status, head } = await courier.send(errand(url));
  expect([status, head?.length]).toEqual([200, 1_024]);
  expect(sent).toBeLessThan(64 * 1_048_576); // what the sockets between us hold, not what it wanted to send
});

test.each([
  ["closes in the middle of its body", (socket: Socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")],
  ["closes in the middle of its head", (socket: Socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Le")],
  ["closes without a word", (socket: Socket) => void socket.end()],
  ["resets", (socket: Socket) => void socket.resetAndDestroy()],
  ["speaks something else", (socket: Socket) => void socket.end("220 smtp ready\r\n")],
  ["has a head without end", (socket: Socket) => void socket.end(`HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\n\r\n`)],
])("one that %s has answered nothing", async (_name, onData) => {
  expect(await courier.send(errand(await raw(onData)))).toMatchObject({ status: null, error: expect.stringMatching(/\w/), head: null });
});

test.each(["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"])(
  "one that goes on with words that belong to no answer has answered all the same: %j",
  async (answer) => {
    const url = await raw((socket) => void socket.end(`${answer}thanks`));
    expect(await courier.send(errand(url))).toMatchObject({ status: Number(answer.slice(9, 12)), error: null });
  },
);

test("one that changes to another protocol has given no answer, and the try is over", async () => {
  const url = await raw((socket) => socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"));
  expect(await courier.send(errand(url))).toMatchObject({ status: null, error: "the connection ended without an answer" });
});

test("one that isn't there, or has no trusted certificate, is told with the reason", async () => {
  const url = await http((_request, response) => void response.end());
  expect(await courier.send(errand("http://127.0.0.1:9/"))).toMatchObject({ status: null, error: expect.stringContaining("ECONNREFUSED") });
  expect(await courier.send(errand(url.replace("http:", "https:")))).toMatchObject({
    status: null,
    error: expect.stringMatching(/SSL|TLS|packet/i),
  });
});

test("what a receiver answers is kept as text that any database holds", async () => {
  const url = await http(
    (_request, response) => void response.writeHead(500).end(Buffer.from([0x61, 0, 0xff, 0xfe, 0xed, 0xa0, 0x80, 0x62])),
  );
  const { head } = await courier.send(errand(url));
  expect(head).toMatch(/^a·+b$/);
});

test("connections are kept, and one that was closed meanwhile is opened anew without a failed try", async () => {
  const sockets = new Set<Socket>();
  const url = await http((request, response) => {
    sockets.add(request.socket);
    response.end("ok");
  });
  for (let i = 0; i < 3; i += 1) expect(await courier.send(errand(url))).toMatchObject({ status: 200 });
  expect(sockets.size).toBe(1);
  const closing = await http((request, response) => {
    response.end("ok");
    setImmediate(() => request.socket.destroy()); // after a promise to keep it
  });
  for (let i = 0; i < 20; i += 1) expect(await courier.send(errand(closing))).toMatchObject({ status: 200, error: null });
});

// Rebinding: a name that is public when it is judged and ours when it is connected to. The canary counts who comes.

test("a name that leads inside is refused after it was looked up, whatever else it leads to, and where isn't told", async () => {
  let knocks = 0;
  const canary = createSocketServer((socket) => {
    knocks += 1;
    socket.destroy();
  });
  endsWithFile(() => canary.close());
  const port = await listening(canary);
  const answers: Record<string, (n: number) => string[]> = {
    "inside.example.com": () => ["127.0.0.1"],
    "inside6.example.com": () => ["::1"],
    "mapped.example.com": () => ["::ffff:127.0.0.1"],
    "mixed.example.com": () => ["203.0.114.1", "127.0.0.1"],
    "metadata.example.com": () => ["169.254.169.254"],
    "rebinding.example.com": (n) => (n % 2 === 0 ? ["127.0.0.1"] : ["10.0.0.1"]),
    "nothing.example.com": () => [],
  };
  const names = await startNameServer((name, n) => answers[name]?.(n) ?? []);
  endsWithFile(names.end);
  const guarded = courierOf({ allowPrivate: false, nameServers: [names.address] });
  for (const host of Object.keys(answers)) {
    const { status, error } = await guarded.send(errand(`https://${host}:${port}/`));
    expect([host, status, error]).toEqual([host, null, expect.stringMatching(/is not a public address|ENODATA|has no address/)]);
    expect(error).not.toMatch(/127\.0|10\.0|169\.254|::/);
  }
  for (const url of [`https://127.0.0.1:${port}/`, `http://127.0.0.1:${port}/`, `https://localhost:${port}/`, `https://[::1]:${port}/`])
    expect(await guarded.send(errand(url))).toMatchObject({ status: null, error: expect.stringContaining("the URL") });
  expect(knocks).toBe(0);
});

test("the control: a courier that may go inside knocks at that canary by the same names", async () => {
  let knocks = 0;
  const canary = createSocketServer((socket) => {
    knocks += 1;
    socket.destroy();
  });
  endsWithFile(() => canary.close());
  const port = await listening(canary);
  const names = await startNameServer(() => ["127.0.0.1"]);
  endsWithFile(names.end);
  const free = courierOf({ nameServers: [names.address] });
  expect(await free.send(errand(`http://inside.example.com:${port}/`))).toMatchObject({ status: null });
  expect(knocks).toBeGreaterThan(0);
});

test("name servers that the machine was given since are asked, once those of its start don't answer", async (t) => {
  const folder = freshFolder("names");
  const file = join(folder, "resolv.conf");
  writeFileSync(file, "nameserver 127.0.0.2:1\n"); // where nobody listens
  const places = ["mount", "--bind", file, "/etc/resolv.conf"];
  if (spawnSync("unshare", ["--mount", ...places]).status !== 0) t.skip("a mount namespace can't be made here");
  const names = await startNameServer(() => ["127.0.0.1"]);
  endsWithFile(names.end);
  const program = `
    import { writeFileSync } from "node:fs";
    import { createCourier } from "./cloud/adapters/courier.ts";
    const courier = createCourier({ allowPrivate: false });
    const tell = async () => console.log((await courier.send(${JSON.stringify(errand("https://receiver.example.com/"))})).error);
    await tell();
    writeFileSync("/etc/resolv.conf", "nameserver ${names.address}\\n");
    await tell();
    await courier.close();`;
  const inside = ["--mount", "sh", "-c", `${places.join(" ")} && exec "$@"`, "sh", process.execPath, "--input-type=module", "-e", program];
  const { stdout } = await promisify(execFile)("unshare", inside, { cwd: fileURLToPath(new URL("../..", import.meta.url)) });
  expect(stdout.trim().split("\n")).toEqual([expect.stringContaining("ECONNREFUSED"), expect.stringContaining("is not a public address")]);
});

test("the addresses that were judged are the ones that are connected to: a name is asked once a connection", async () => {
  const url = await http((_request, response) => void response.writeHead(200, { connection: "close" }).end());
  const { port } = new URL(url);
  const names = await startNameServer((name, n) => (name === "flips.example.com" && n === 0 ? ["127.0.0.1"] : ["169.254.169.254"]));
  endsWithFile(names.end);
  const guarded = courierOf({ nameServers: [names.address] });
  expect(await guarded.send(errand(`http://flips.example.com:${port}/`))).toMatchObject({ status: 200 });
  expect(names.asked("flips.example.com")).toBe(2); // one question for each family
  expect(await guarded.send(errand(`http://flips.example.com:${port}/`))).toMatchObject({ error: expect.stringContaining("linkLocal") });
});
