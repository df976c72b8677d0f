// The least that fastify can do for a link: read one parameter and redirect.
import Fastify from "fastify";

const app = Fastify();
app.get("/01/:gtin/21/:serial", async (request, reply) => {
  const { serial } = request.params as { serial: string };
  return reply.redirect(`http://127.0.0.1:8080/p/01900000-0000-7000-8000-000000000000?serial=${encodeURIComponent(serial)}`, 302);
});
const url = await app.listen({ port: 0 });
process.stdout.write(`${JSON.stringify({ event: "ready", url })}\n`);
process.once("SIGTERM", () => void app.close());
