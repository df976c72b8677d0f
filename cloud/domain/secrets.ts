// Secrets: made from 256 random bits with a checksum that catches a cut copy, kept as a hash, compared in constant time.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { crc32 } from "node:zlib";

const MARK = "imp_";
const BODY_LENGTH = 50; // 256 bits in base 36
const CHECK_LENGTH = 7; // 32 bits in base 36
const SHOWN_LENGTH = 12;

const checksum = (text: string) => crc32(text).toString(36).padStart(CHECK_LENGTH, "0");

export function mintSecret(): string {
  const body = MARK + BigInt(`0x${randomBytes(32).toString("hex")}`).toString(36).padStart(BODY_LENGTH, "0");
  return body + checksum(body);
}

/** False for what can't be a secret of ours: no need to ask the store. A key of the operator's own choosing has no checksum. */
export function looksWhole(secret: string): boolean {
  if (!secret.startsWith(MARK) || secret.length !== MARK.length + BODY_LENGTH + CHECK_LENGTH) return true;
  return checksum(secret.slice(0, -CHECK_LENGTH)) === secret.slice(-CHECK_LENGTH);
}

/** A random key of 256 bits needs no slow hash: there is nothing to guess. */
export const hashOf = (secret: string): Buffer => createHash("sha256").update(secret).digest();
export const lookupOf = (hash: Buffer): string => hash.subarray(0, 8).toString("hex");
export const shownOf = (secret: string): string => (secret.startsWith(MARK) ? secret.slice(0, SHOWN_LENGTH) : "(own choosing)");
export const matches = (secret: string, hash: Buffer): boolean => timingSafeEqual(hashOf(secret), hash);
