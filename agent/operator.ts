// Who is at the station: a badge opens a session of twelve hours, and every word about a label carries who said it.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import type { Clock } from "./clock.ts";
import { withoutAim } from "./scanners/lines.ts";

export type Operator = { id: string; name: string };
export type Operators = ReturnType<typeof operatorsOf>;

const SESSION_MS = 12 * 3_600_000;
const SESSIONS_MAX = 1_000;
const WRONG_MAX = { pin: 5, badge: 20 };
const WRONG_MS = 60_000;
const digest = (text: string) => hash("sha256", text, "buffer");
const isSame = (one: string, other: string) => timingSafeEqual(digest(one), digest(other));

export function operatorsOf(known: readonly (Operator & { badge?: string; pin?: string })[], clock: Clock) {
  const sessions = new Map<string, { operator: Operator; until: number }>();
  const wrong: Record<"pin" | "badge", number[]> = { pin: [], badge: [] };
  const find = (kind: "pin" | "badge", word: string) => {
    const spellings = kind === "badge" ? [word, withoutAim(word).text] : [word]; // the scanner that reads labels with it reads badges, too
    const found = known.find((one) => spellings.some((spelling) => one[kind] !== undefined && isSame(one[kind], spelling)));
    if (found && kind === "badge") return found; // what a scanner reads besides, cartons and all, counts as badges too
    const now = clock.now();
    const recent = wrong[kind].filter((at) => now - at < WRONG_MS);
    if (recent.length >= WRONG_MAX[kind])
      throw new Refusal("RATE_LIMITED", kind === "pin" ? saying("too_many_pins") : saying("too_many_badges"), undefined, {
        "retry-after": String(Math.ceil((WRONG_MS - now + (recent[0] ?? now)) / 1_000)),
      });
    wrong[kind] = found ? recent : [...recent, now];
    return found;
  };
  return {
    /** Refuses a badge or a PIN that nobody has, and whoever tries too many PINs: they are short. A badge is let in whatever else was scanned before it. */
    arrive: (shown: { badge: string } | { pin: string }): { operator: Operator; session: string } => {
      const found = "pin" in shown ? find("pin", shown.pin) : find("badge", shown.badge);
      if (!found) throw new Refusal("UNAUTHORIZED", `no operator of this station has this ${"pin" in shown ? "PIN" : "badge"}`);
      const session = randomBytes(24).toString("base64url");
      const operator = { id: found.id, name: found.name };
      sessions.set(session, { operator, until: clock.now() + SESSION_MS });
      for (const oldest of [...sessions.keys()].slice(0, -SESSIONS_MAX)) sessions.delete(oldest);
      return { operator, session };
    },
    /** Refuses a session that isn't one, or no more. */
    who: (session: string | undefined): Operator => {
      const found = session === undefined ? undefined : sessions.get(session);
      if (found && found.until > clock.now()) return found.operator;
      throw new Refusal("UNAUTHORIZED", found ? saying("session_over") : saying("badge_first"));
    },
  };
}
