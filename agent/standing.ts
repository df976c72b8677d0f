// Who we are for the cloud, by whose keys it speaks, and what it is told of us; kept in the buffer, so that a start without a network knows it.
import type { StationReport } from "#shared/wire/devices.ts";
import type { CloudClient } from "./cloud.ts";
import { startRounds } from "./rounds.ts";
import { conditionOf, type State } from "./state.ts";
import type { Floor } from "./floor.ts";
import type { Uplink } from "./uplink.ts";
import { readable } from "./words.ts";

export type Standing = ReturnType<typeof standingOf>;
export type Talks = { cloud: CloudClient; uplink: Uplink };

export function standingOf({ cloud, uplink, floor: { store, say } }: Talks & { floor: Floor }) {
  let info = store.kept("station");
  let keys = store.kept("jwks");
  return {
    info: () => info,
    keys: () => keys,
    refresh: async (): Promise<void> => {
      const said = await cloud.station();
      uplink.heard(said);
      if (!said.ok) return;
      info = said.value;
      store.keep("station", info);
    },
    /** False where they can't be had now. */
    refreshKeys: async (): Promise<boolean> => {
      const said = await cloud.jwks();
      uplink.heard(said, "anybody");
      if (!said.ok) {
        say("warn", { event: "keys" }, "the cloud's keys can't be had");
        return false;
      }
      keys = said.value;
      store.keep("jwks", keys);
      return true;
    },
  };
}

/** The station in the words of the cloud, the same over HTTP and MQTT. */
export const reportOf = (state: State): StationReport => ({
  status: conditionOf(state),
  version: state.version,
  buffer_depth: state.buffer_depth,
  printers: state.printers.map(({ name, status, words, ceiling, simulated }) => ({
    name,
    status: readable(words === status ? status : `${status}: ${words}`, 200), // a ready one has no more to say
    ceiling,
    simulated,
  })),
});

type TellDeps = Talks & { floor: Floor; report(): StationReport };

const TELL_MS = 20_000;

/** What is new, soon; that it is still there, now and then. */
export function tellingOf({ cloud, uplink, floor: { clock, say }, report }: TellDeps) {
  let told = "";
  let toldAt = -Infinity;
  let fault = "";
  return startRounds(clock, async () => {
    try {
      const said = report();
      const text = JSON.stringify({ ...said, buffer_depth: 0 });
      if (text !== told || clock.now() - toldAt > TELL_MS) {
        const answer = await cloud.tell(said);
        uplink.heard(answer);
        if (answer.ok) [told, toldAt] = [text, clock.now()];
      }
      fault = "";
    } catch (error) {
      const words = `the cloud can't be told how this station is: ${(error as Error).message}`; // the next round tells it
      if (words !== fault) say("warn", { event: "telling" }, (fault = words));
    }
    return TELL_MS / 10;
  });
}
