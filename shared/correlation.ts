// The id that follows what somebody did, from a click or a call through logs, audit and webhooks: the caller's own where it fits into a header.
import { limits } from "./limits.ts";

const FIT = new RegExp(`^[\\w.:~+=@/-]{1,${limits.CORRELATION_ID_MAX_LENGTH}}$`);
export const isCorrelationId = (sent: unknown): sent is string => typeof sent === "string" && FIT.test(sent);
