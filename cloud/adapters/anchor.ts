// An external anchoring service: it is told a digest and answers with a receipt for that very digest, or nothing happened.
import { digestOf } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { Receipt } from "#shared/wire/trust.ts";
import { asking } from "./outside.ts";

export type Anchor = (subject: { passportId: string; version: number; digest: string }) => Promise<Receipt>;

export function anchorAt(url: string): Anchor {
  const ask = asking<Receipt>(Receipt);
  return async (subject) => {
    const { digest } = subject;
    try {
      // The key follows from what is anchored: asked again, be it tomorrow after a crash, the service does it once.
      const receipt = await ask({ url, body: { digest, algorithm: "SHA-256" }, key: digestOf({ anchor: subject }) });
      if (receipt.digest !== digest) throw new Error(`its receipt is for another digest, ${receipt.digest}`);
      return receipt;
    } catch (cause) {
      const message = `the anchoring service failed: ${(cause as Error).message}; nothing was written`;
      throw Object.assign(new Refusal("ANCHORING_FAILED", message), { cause });
    }
  };
}
