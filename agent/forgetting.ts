// What is over, told and explained is forgotten after a month: a buffer that only grew would fill its disk one day, and stop the station.
import type { CloudTime } from "./cloud-time.ts";
import type { Floor } from "./floor.ts";
import { startRounds } from "./rounds.ts";

const KEPT_MS = 30 * 86_400_000;
const EVERY_MS = 3_600_000;
const AT_ONCE = 50; // a label under way waits for no more
const PAUSE_MS = 500;

/** A month by the cloud's clock and by the station's own, which may leap by one, or be months behind: what it writes down is dated by that. */
export function forgettingOf({ store, clock, say }: Floor, time: CloudTime) {
  function forgotten(): number {
    try {
      return store.fault() === null ? store.forget(time.now() - KEPT_MS, AT_ONCE) : 0;
    } catch (error) {
      say("error", { event: "buffer" }, `what is over can't be forgotten: ${(error as Error).message}`);
      return 0;
    }
  }
  return startRounds(clock, () => (time.skew() !== null && forgotten() < AT_ONCE ? EVERY_MS : PAUSE_MS));
}
