// An HTTP client that takes next to nothing of the machine, so that the server is what is measured: bare sockets, kept open, one request at a time on each.
import { randomUUID } from "node:crypto";
import { connect, type Socket } from "node:net";

export type Answer = { status: number; text: string };
export type Call = (path: string, body: object) => Promise<Answer>;

type Lane = { socket: Socket; heard: Buffer; settle?: { resolve(answer: Answer): void; reject(error: Error): void } };

/** Answers of ours and of a bare fastify have a length, or none and no body; whatever else comes is an error. */
function answerIn(heard: Buffer): { answer: Answer; length: number } | undefined {
  const end = heard.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const head = heard.toString("latin1", 0, end);
  const bytes = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
  const length = end + 4 + bytes;
  if (heard.length < length) return undefined;
  return { answer: { status: Number(head.slice(9, 12)), text: heard.toString("utf8", end + 4, length) }, length };
}

/** With `isKeyed`, each call has an Idempotency-Key of its own. */
export function leanClient(url: string, secret: string, isKeyed = false): { post: Call; end(): void } {
  const { hostname, port } = new URL(url);
  const lanes = new Set<Lane>();
  const idle: Lane[] = [];

  function open(): Lane {
    const lane: Lane = { socket: connect({ host: hostname, port: Number(port), noDelay: true }), heard: Buffer.alloc(0) };
    lanes.add(lane);
    lane.socket.on("data", (chunk) => {
      lane.heard = lane.heard.length === 0 ? chunk : Buffer.concat([lane.heard, chunk]);
      const found = answerIn(lane.heard);
      if (!found) return;
      lane.heard = lane.heard.subarray(found.length);
      idle.push(lane);
      lane.settle?.resolve(found.answer);
    });
    lane.socket.on("error", (error) => lane.settle?.reject(error));
    lane.socket.on("close", () => {
      lanes.delete(lane);
      lane.settle?.reject(new Error("the server closed the connection"));
    });
    return lane;
  }

  const post: Call = (path, body) => {
    const text = JSON.stringify(body);
    const key = isKeyed ? `idempotency-key: ${randomUUID()}\r\n` : "";
    const lane = idle.pop() ?? open();
    lane.socket.write(
      `POST ${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${secret}\r\ncontent-type: application/json\r\n${key}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
    return new Promise((resolve, reject) => void (lane.settle = { resolve, reject }));
  };
  return {
    post,
    end: () => {
      for (const { socket } of lanes) socket.destroy();
    },
  };
}

export async function well<T>(answer: Promise<Answer>): Promise<T> {
  const { status, text } = await answer;
  if (status >= 300) throw new Error(`answered ${status}: ${text}`);
  return JSON.parse(text || "null") as T;
}
