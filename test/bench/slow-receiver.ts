// A receiver for the bench, in a process of its own: answers every delivery after 20 ms, and says how many there were.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const ANSWER_MS = 20;
let deliveries = 0;
const server = createServer((request, response) => {
  if (request.method === "GET") return void response.end(String(deliveries));
  request.resume();
  setTimeout(() => {
    deliveries += 1;
    response.writeHead(204).end();
  }, ANSWER_MS);
});
server.listen(0, "127.0.0.1", () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ event: "ready", url: `http://127.0.0.1:${port}` })}\n`);
});
process.once("SIGTERM", () => process.exit(0));
