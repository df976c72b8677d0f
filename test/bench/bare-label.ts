// The least that fastify can do with the seven calls of a label: parse their bodies and answer as many bytes as ours does.
// With BARE_FILE results are kept as well, as cheaply as a disk allows: a page each, and one sync for all that a turn of the event loop brings.
import { fsyncSync, openSync, writeSync } from "node:fs";
import Fastify from "fastify";

const PAGE = Buffer.alloc(4_096);
const PAGES = 4_096;

function keeper(file: string): () => Promise<void> {
  const descriptor = openSync(file, "w");
  const write = (n: number) => writeSync(descriptor, PAGE, 0, PAGE.length, (n % PAGES) * PAGE.length);
  for (let n = 0; n < PAGES; n += 1) write(n); // overwritten from here on, as a log is that has had its first round
  fsyncSync(descriptor);
  let last = 0;
  let waiting: (() => void)[] = [];
  const sync = () => {
    const all = waiting;
    waiting = [];
    for (let i = 0; i < all.length; i += 1) write((last += 1));
    fsyncSync(descriptor);
    for (const answer of all) answer();
  };
  return () =>
    new Promise((answer) => {
      if (waiting.push(answer) === 1) setImmediate(sync);
    });
}

const file = process.env["BARE_FILE"];
const kept = file === undefined ? async () => {} : keeper(file);

const app = Fastify();
const job = {
  job_ref: `pj_${"0".repeat(26)}`,
  state: "SCAN_VERIFIED",
  product_id: "0".repeat(36),
  gtin: "09506000134352",
  serial: "100000000001",
  digital_link: `https://id.example/01/09506000134352/21/${"1".repeat(12)}`,
  sgtin96_epc: "0".repeat(24),
  needs: ["qr"],
  template: "default",
  priority: 0,
  station: null,
  attempt_id: "0".repeat(36),
  attempt: 1,
  max_attempts: 3,
  lease: { device_id: "0".repeat(36), expires_at: "2026-11-21T12:00:00.000Z" },
  reason: null,
  duplicate_risk: false,
  reprint: false,
  created_at: "2026-11-21T12:00:00.000Z",
  updated_at: "2026-11-21T12:00:00.000Z",
};
const claimed = { job, attempt_id: job.attempt_id, lease: job.lease, envelope: "x".repeat(900) };
app.post("/api/v2/aidc/jobs", async (_request, reply) => reply.code(201).send({ ...job }));
app.post("/api/v2/aidc/jobs/claim", async (_request, reply) => reply.send({ ...claimed }));
app.post("/api/v2/aidc/jobs/:ref/result", async (_request, reply) => {
  await kept();
  return reply.send({ ...job });
});
const url = await app.listen({ port: 0, host: "127.0.0.1" });
process.stdout.write(`${JSON.stringify({ event: "ready", url })}\n`);
process.once("SIGTERM", () => void app.close());
