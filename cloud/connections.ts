// The open connections, as a close has to see them: which one is idle, which one waits for its client, and which one waits for us.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Exchange = { request: IncomingMessage; response: ServerResponse };
export type Connections = {
  /** Those over which nothing is under way. */
  closeIdle(): void;
  /** Also those whose client is slow to send its request or to read its answer; how many. What we have still to answer stays. */
  cutSlow(): number;
};

/** All of it was heard, and nothing said yet. */
const isOurTurn = (exchange: Exchange | undefined): boolean =>
  exchange !== undefined && exchange.request.complete && !exchange.response.headersSent;

export function connectionsOf(server: Server): Connections {
  const open = new Map<Socket, Exchange | undefined>();
  server.on("connection", (socket: Socket) => {
    open.set(socket, undefined);
    socket.once("close", () => open.delete(socket));
  });
  server.prependListener(
    "request",
    (request: IncomingMessage, response: ServerResponse) => void open.set(request.socket, { request, response }),
  );
  return {
    closeIdle: () => {
      server.closeIdleConnections();
      // Browsers open connections ahead of need. One that never said a word isn't idle to Node, and would hold up a close for ever.
      for (const socket of open.keys()) if (socket.bytesRead === 0) socket.destroy();
    },
    cutSlow: () => {
      const slow = [...open].filter(([, exchange]) => !isOurTurn(exchange));
      for (const [socket] of slow) socket.destroy();
      return slow.length;
    },
  };
}
