// The keys that the cloud signs with, as the platform sees them.
import { Type } from "typebox";
import { closed, Instant, nullable, type Static } from "./common.ts";

const Kid = Type.String({ pattern: "^[A-Za-z0-9_-]{43}$", description: "RFC 7638's thumbprint of the key" });
export const KidParams = closed({ kid: Kid });
export const SigningKey = closed({
  kid: Kid,
  createdAt: Instant,
  retiredAt: nullable(Instant),
  resignedAt: nullable(Type.String({ format: "date-time", description: "When the last passport that it had signed was signed anew" })),
});
export type SigningKey = Static<typeof SigningKey>;
