// How much of the plan is run: in `npm test` what fits into it; with CHAOS_PLAN=1 all of it, with 0.1 a tenth.

const SHARE = Number(process.env["CHAOS_PLAN"] ?? 0);
if (!(SHARE >= 0 && SHARE <= 1)) throw new Error(`CHAOS_PLAN is a share from 0 to 1, not ${process.env["CHAOS_PLAN"]}`);

export const size = (inTests: number, whole: number): number => Math.max(inTests, Math.round(SHARE * whole));
/** Of a test whose size isn't fixed. */
export const timeout = (inTests: number): number => Math.max(inTests, SHARE * 4 * 3_600_000);
