// What somebody answers, as long as it isn't too much: who sends without an end isn't heard out.

export async function bodyWithin({ body }: Response, mostBytes: number, tooLarge: () => Error): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body ?? []) {
    size += part.byteLength;
    if (size > mostBytes) throw tooLarge(); // leaving the loop cancels the rest
    parts.push(part);
  }
  return Buffer.concat(parts);
}

const CLOUD_MAX_BYTES = 16_777_216; // several times what its longest answer takes, of 500 results or 200 claims
/** What the cloud answers, or whoever stands in its place. */
export const textFromCloud = async (answer: Response): Promise<string> =>
  String(await bodyWithin(answer, CLOUD_MAX_BYTES, () => new Error(`it answers more than ${CLOUD_MAX_BYTES} bytes`)));
