// The kept sentences (see shared/sayings.ts) in English, for both consoles: shown as they are kept, except those that are kept as a code.
import { sayings } from "../../sayings.ts";
import type { Told } from "../telling.ts";

export const en: Told = {
  sayings: {
    ...sayings,
    lease_expired: "the station said nothing more of it",
    lease_expired_after_spool: "the station said nothing more of it after it was sent: a label may exist",
    serial_voided: "the serial was voided",
    product_voided: "the product was voided",
  },
  refusals: {},
};
