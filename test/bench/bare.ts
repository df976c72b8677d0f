// The least that fastify can do: parse a POST and answer as many bytes as a minted client has.
import Fastify from "fastify";

const app = Fastify();
const answer = {
  client_id: "0".repeat(36),
  client_secret: "x".repeat(61),
  name: "x".repeat(47),
  scopes: ["products:read", "aidc:read"],
  prefix: "x".repeat(12),
  createdAt: "x".repeat(24),
};
app.post("/", async (_request, reply) => reply.code(201).send({ ...answer }));
const url = await app.listen({ port: 0 });
process.stdout.write(`${JSON.stringify({ event: "ready", url })}\n`);
process.once("SIGTERM", () => void app.close());
