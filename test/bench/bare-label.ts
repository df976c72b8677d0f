// The least that fastify can do with the seven calls of a label: parse their bodies and answer as many bytes as ours does.
import Fastify from "fastify";

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
app.post("/api/v2/aidc/jobs/:ref/result", async (_request, reply) => reply.send({ ...job }));
const url = await app.listen({ port: 0, host: "127.0.0.1" });
process.stdout.write(`${JSON.stringify({ event: "ready", url })}\n`);
process.once("SIGTERM", () => void app.close());
