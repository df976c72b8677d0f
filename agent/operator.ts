// Who is at the station: a badge opens a session of twelve hours, and every word about a label carries who said it.
import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { Refusal } from "#shared/errors.ts";
import type { Clock } from "./clock.ts";

export type Operator = { id: string; name: string };
export type Operators = {
  /** Refuses a badge that nobody has. */
  arrive(badge: string): { operator: Operator; session: string };
  /** Refuses a session that isn't one, or no more. */
  who(session: string | undefined): Operator;
};

const SESSION_MS = 12 * 3_600_000;
const SESSIONS_MAX = 1_000;
const digest = (text: string) => hash("sha256", text, "buffer");

export function operatorsOf(known: readonly (Operator & { badge: string })[], clock: Clock): Operators {
  const sessions = new Map<string, { operator: Operator; until: number }>();
  return {
    arrive: (badge) => {
      const given = digest(badge);
      const found = known.find((one) => timingSafeEqual(digest(one.badge), given));
      if (!found) throw new Refusal("UNAUTHORIZED", "no operator of this station has this badge");
      const session = randomBytes(24).toString("base64url");
      const operator = { id: found.id, name: found.name };
      sessions.set(session, { operator, until: clock.now() + SESSION_MS });
      for (const oldest of [...sessions.keys()].slice(0, -SESSIONS_MAX)) sessions.delete(oldest);
      return { operator, session };
    },
    who: (session) => {
      const found = session === undefined ? undefined : sessions.get(session);
      if (found && found.until > clock.now()) return found.operator;
      throw new Refusal(
        "UNAUTHORIZED",
        found ? "this session is over: show your badge again" : "show your badge first: POST /api/operator",
      );
    },
  };
}
