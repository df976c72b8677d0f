// Secrets: made from 256 random bits with a checksum that catches a cut copy, kept as a hash, compared in constant time.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";

const MARK = "imp_";
const BODY_LENGTH = 50; // 256 bits in base 36
const CHECK_LENGTH = 7; // 32 bits in base 36
const SHOWN_LENGTH = 12;

const checksum = (text: string) => crc32(text).toString(36).padStart(CHECK_LENGTH, "0");

// Randomness is asked for by the page: each question to the system takes longer than the rest of a secret.
const SECRET_BYTES = 32;
let pool = Buffer.alloc(0);
function random(): Buffer {
  if (pool.length === 0) pool = randomBytes(128 * SECRET_BYTES);
  const taken = pool.subarray(0, SECRET_BYTES);
  pool = pool.subarray(SECRET_BYTES);
  return taken;
}

export function mintSecret(): string {
  const body =
    MARK +
    BigInt(`0x${random().toString("hex")}`)
      .toString(36)
      .padStart(BODY_LENGTH, "0");
  return body + checksum(body);
}

/** False for what can't be a secret of ours: no need to ask the store. A key of the operator's own choosing has no checksum. */
export function looksWhole(secret: string): boolean {
  if (!secret.startsWith(MARK) || secret.length !== MARK.length + BODY_LENGTH + CHECK_LENGTH) return true;
  return checksum(secret.slice(0, -CHECK_LENGTH)) === secret.slice(-CHECK_LENGTH);
}

/** A random key of 256 bits needs no slow hash: there is nothing to guess. */
export const hashOf = (secret: string): Buffer => hash("sha256", secret, "buffer");
export const lookupOf = (hash: Buffer): string => hash.subarray(0, 8).toString("hex");
export const shownOf = (secret: string): string => (secret.startsWith(MARK) ? secret.slice(0, SHOWN_LENGTH) : "(own choosing)");
export const matches = (secret: string, kept: Buffer): boolean => timingSafeEqual(hashOf(secret), kept);
