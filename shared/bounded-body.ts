// What somebody answers, as long as it isn't too much: who sends without an end isn't heard out.

/** Who sends a byte now and then isn't heard any more once `stop` says so. */
export async function bodyWithin({ body }: Response, mostBytes: number, tooLarge: () => Error, stop?: AbortSignal): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body ?? []) {
    size += part.byteLength;
    stop?.throwIfAborted();
    if (size > mostBytes) throw tooLarge(); // leaving the loop cancels the rest
    parts.push(part);
  }
  return Buffer.concat(parts);
}
