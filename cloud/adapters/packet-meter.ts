// A socket whose MQTT packets are measured before anybody keeps them: the parser behind it would collect 256 MB of one that never ends.
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { limits } from "#shared/limits.ts";

/** Ends the connection at a packet that announces more than its type may have, or that `mayGoOn` doesn't like. */
export function metered(socket: Socket, mayGoOn: () => boolean): Duplex {
  const fits = meter(mayGoOn);
  const conn = new Duplex({
    allowHalfOpen: false,
    read: () => void socket.resume(),
    write: (chunk: Buffer, _encoding, done) => void socket.write(chunk, done),
    final: (done) => void socket.end(() => done()),
    destroy: (error, done) => {
      socket.destroy();
      done(error);
    },
  });
  conn.on("error", () => {}); // a connection that breaks is a connection that ends
  socket.on("data", (chunk: Buffer) => {
    if (!fits(chunk)) conn.destroy(new Error("too large a packet, or too many"));
    else if (!conn.push(chunk)) socket.pause();
  });
  socket.on("end", () => conn.push(null));
  socket.on("error", (error) => conn.destroy(error));
  socket.on("close", () => conn.destroy());
  return conn;
}

/** Follows packets by their lengths alone: a byte that says what it is, one to four that say how long, and so many more. */
function meter(mayGoOn: () => boolean): (chunk: Buffer) => boolean {
  let left = 0;
  let mostBytes = 0;
  let factor = 0; // 0: the next byte begins a packet
  return (chunk) => {
    for (let i = 0; i < chunk.length;) {
      if (factor === 0 && left > 0) {
        const inChunk = Math.min(left, chunk.length - i);
        left -= inChunk;
        i += inChunk;
        continue;
      }
      const byte = chunk[i] ?? 0;
      i += 1;
      if (factor === 0) {
        if (!mayGoOn()) return false;
        mostBytes = LISTS_TOPICS.has(byte >> 4) ? limits.MQTT_TOPICS_MAX_BYTES : limits.MQTT_PACKET_MAX_BYTES;
        factor = 1;
        continue;
      }
      left += (byte & 127) * factor;
      factor = byte < 128 ? 0 : factor * 128;
      if (left > mostBytes || factor > LENGTH_MAX) return false;
    }
    return true;
  };
}
const LENGTH_MAX = 128 ** 3;
const LISTS_TOPICS = new Set([8, 10]); // SUBSCRIBE, UNSUBSCRIBE
