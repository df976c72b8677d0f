// Serials that nobody can guess from others and that never come twice: a counter, sent through a permutation that only the tenant's secret knows.
import { createCipheriv } from "node:crypto";

const BITS = 38;
const HALF_BITS = BITS / 2;
const HALF = 2 ** HALF_BITS;
const HALF_MASK = HALF - 1;
const ROUNDS = 8;
const BLOCK_BYTES = 16;
/** Serials are 1 to this; the number 0 is left out. */
export const SERIALS_OF_A_TENANT = 2 ** BITS - 1;

/** One round of a Feistel network over many numbers at once: AES says how each left half is changed by its right one. */
function round(secret: Buffer, nth: number, left: Uint32Array, right: Uint32Array): Uint32Array<ArrayBuffer> {
  const blocks = Buffer.alloc(left.length * BLOCK_BYTES);
  for (const [i, half] of right.entries()) {
    blocks.writeUInt32BE(half, i * BLOCK_BYTES);
    blocks.writeUInt8(nth, i * BLOCK_BYTES + BLOCK_BYTES - 1);
  }
  const cipher = createCipheriv("aes-256-ecb", secret, null).setAutoPadding(false);
  const mixed = cipher.update(blocks);
  return Uint32Array.from(left, (half, i) => (half ^ mixed.readUInt32BE(i * BLOCK_BYTES)) & HALF_MASK);
}

/** A permutation of 0 to 2^38 - 1. */
export function permuted(secret: Buffer, numbers: readonly number[]): number[] {
  let left = Uint32Array.from(numbers, (n) => Math.floor(n / HALF));
  let right = Uint32Array.from(numbers, (n) => n % HALF);
  for (let nth = 0; nth < ROUNDS; nth += 1) [left, right] = [right, round(secret, nth, left, right)];
  return Array.from(left, (half, i) => half * HALF + (right[i] ?? 0));
}

/** Its rounds, from the last to the first. */
function unpermuted(secret: Buffer, number: number): number {
  let left = Uint32Array.of(Math.floor(number / HALF));
  let right = Uint32Array.of(number % HALF);
  for (let nth = ROUNDS - 1; nth >= 0; nth -= 1) [left, right] = [round(secret, nth, right, left), left];
  return (left[0] ?? 0) * HALF + (right[0] ?? 0);
}

/** The serials of the places `from` and on. Where 0 would come out, what 0 itself is sent to stands instead. */
export function serialsAt(secret: Buffer, from: number, count: number): string[] {
  const numbers = permuted(
    secret,
    Array.from({ length: count }, (_, i) => from + i),
  );
  return numbers.map((n) => String(n === 0 ? permuted(secret, [0])[0] : n));
}

/** The place of a serial, whichever was given out; undefined where no place has it. */
export function placeOf(secret: Buffer, serial: string): number | undefined {
  const number = Number(serial);
  if (!/^[1-9]\d{0,11}$/.test(serial) || number > SERIALS_OF_A_TENANT) return undefined;
  const place = unpermuted(secret, number);
  return place === 0 ? unpermuted(secret, 0) : place; // what 0 is sent to stands where 0 would come out
}
