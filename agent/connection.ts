// Whether the cloud is there and takes our key, by its latest answer to whatever it was asked: each change is told once.
import type { NoAnswer } from "./cloud.ts";
import { fateOf, isOfAnother, isStranger } from "./fates.ts";
import type { Floor } from "./floor.ts";

export type Answer = { ok: true } | NoAnswer;
const isThere = (said: Answer): boolean => said.ok || (said.status > 0 && !isOfAnother(said));

export function connectionOf({ news, say }: Floor) {
  let online: boolean | undefined;
  let stopped: string | null = null;
  let strange = "";

  function heard(said: Answer, askedAs: "us" | "anybody"): void {
    const now = !said.ok && said.unasked ? online : isThere(said);
    if (online !== now)
      say(
        now ? "info" : "warn",
        { event: now ? "online" : "offline" },
        now ? "the cloud answers" : `${said.ok ? "" : said.message}: working on, reports wait`,
      );
    if (!said.ok && isStranger(said) && strange !== said.message) {
      strange = said.message;
      say("warn", { event: "stranger" }, `${strange}, and not in its own words: something else took the call, and reports wait`);
    }
    const before = stopped;
    if (said.ok) stopped = askedAs === "us" ? null : stopped; // what anybody may ask for says nothing about our key
    else if (fateOf(said) === "stop") stopped = `${said.code}: ${said.message}`;
    if (stopped !== before)
      say(
        stopped ? "error" : "info",
        { event: "standing" },
        stopped ? `no more jobs are claimed: ${stopped}` : "the cloud takes our key again",
      );
    if (online !== now || stopped !== before) {
      online = now;
      news.beat();
    }
  }

  return {
    heard,
    online: () => online ?? false,
    /** Why the cloud won't have us, if it won't. */
    stopped: () => stopped,
  };
}
