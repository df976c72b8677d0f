// The station: claims ahead, keeps its leases, prints lane by lane, listens to its scanners, and tells the cloud all of it when it can.
import { openBuffer } from "./buffer.ts";
import { claimsOf } from "./claims.ts";
import { adoptionOf } from "./adoption.ts";
import { takeOver } from "./answers.ts";
import { clickNow } from "./click.ts";
import { type Clock, steady, systemClock } from "./clock.ts";
import { cloudTime, spanOf } from "./cloud-time.ts";
import { cloudClient } from "./cloud.ts";
import type { AgentConfig } from "./config.ts";
import { tryAddress } from "./address.ts";
import { type Console, openConsole } from "./console.ts";
import { forgettingOf } from "./forgetting.ts";
import { type Lane, startLane } from "./lane.ts";
import { leasesOf } from "./leases.ts";
import type { AgentLog } from "./log.ts";
import { noticesOf } from "./notices.ts";
import { operatorsOf } from "./operator.ts";
import { asOwner } from "./owner.ts";
import { isWorking, PATIENCE, type PressOptions } from "./press.ts";
import { pulse } from "./pulse.ts";
import type { Link } from "./reconnecting.ts";
import { openScanner, scannerDrivers } from "./scanners/index.ts";
import type { Scanner } from "./scanners/scanner.ts";
import { type Scans, scansOf } from "./scans.ts";
import { reportOf, standingOf, tellingOf } from "./standing.ts";
import { stateOf } from "./state.ts";
import type { Floor, Say } from "./floor.ts";
import { recover } from "./steps.ts";
import { loadTemplates } from "./template.ts";
import { type Pauses, startUplink } from "./uplink.ts";
import { startWake } from "./wake.ts";

export type StationOptions = PressOptions & {
  log: AgentLog;
  clock?: Clock;
  pauses?: Pauses;
  /** Until a call to the cloud is given up. */
  callMs?: number;
};
export type Station = Awaited<ReturnType<typeof startStation>>;
export async function startStation(config: AgentConfig, options: StationOptions) {
  const { log, pauses, callMs, patience: { drainMs = PATIENCE.drainMs } = {} } = options;
  const say: Say = (level, line, words) => log.logger[level]({ ...(clickNow() ? { requestId: clickNow() } : {}), ...line }, words);
  const clock = steadyClock(options.clock, say);
  const store = openBuffer(config.dataDir, clock);
  const floor: Floor = { store, clock, news: pulse(clock), say, templates: loadTemplates(), printers: config.printers };
  const time = cloudTime(clock, say);
  const client = cloudClient(config.cloud, config.key, {
    heard: { now: clock.now, date: time.heard },
    ...(callMs === undefined ? {} : { timeoutMs: callMs }),
  });
  const cloud = asOwner(client, store, config);
  try {
    await tryAddress(config.console);
    clock.atLeast(store.latest());
    takeUp(floor);
  } catch (error) {
    store.close();
    throw error;
  }

  // --- from jobs to labels

  let over = false;
  const pause = pauseOf(floor);
  const uplink = startUplink(floor, cloud, pauses);
  const standing = standingOf({ cloud, uplink, floor });
  const adoption = adoptionOf({ cloud, uplink, floor, leaseSeconds: config.claim.leaseSeconds });
  const leases = leasesOf({ config, cloud, uplink, floor, adoption });
  const working = () => lanes.filter((lane) => isWorking(lane.state())).map((lane) => lane.config);
  const claims = claimsOf({ config, cloud, uplink, standing, floor, time, adoption, working, paused: pause.isOn });
  const laneFloor = { ...floor, paused: () => pause.isOn() || over, holds: leases.holds, hungry: claims.hungry };
  const lanes: Lane[] = config.printers.map((printer) => startLane(laneFloor, printer, options));
  const scans = scansOf(floor, { independentReader: config.scanners.some(({ driver }) => scannerDrivers[driver].sees === "tags") });
  const scanners = openScanners(config, scans, floor);

  // --- what it tells of itself, and who says something to it

  const operators = operatorsOf(config.operators, clock);
  const setPaused = (is: boolean) => {
    pause.set(is);
    claims.wake();
  };
  /** As GET /api/state tells it. */
  const state = () =>
    stateOf({
      config,
      store,
      clock,
      lanes,
      scanners,
      scans,
      uplink,
      standing,
      paused: pause.isOn,
      lines: log.last,
      notices: () => noticesOf({ store, clock, time, wary: claims.wary(), refused: claims.refused() }),
      broker: () => line.link(),
    });
  const report = () => reportOf(state());
  const line = startWake({
    settings: config,
    cloud: client,
    onWake: claims.wake,
    onDoubt: leases.doubt,
    report,
    told: () => standing.info()?.mqtt?.url,
    log: log.logger,
    clock,
  });
  const telling = tellingOf({ cloud, uplink, floor, report });
  const forgetting = forgettingOf(floor, time);
  const end = async (web?: Console) => {
    over = true;
    say("info", { event: "draining" }, "ends once the label in hand is written down");
    const cancel = clock.after(drainMs, cloud.end); // what it didn't hear it is told after the next start
    await web?.close();
    await Promise.all([
      claims.end(),
      line.stop(),
      telling.end(),
      forgetting.end(),
      leases.end(),
      ...lanes.map((lane) => lane.end()),
      ...scanners.map((scanner) => scanner.end()),
    ]);
    scans.end();
    await uplink.end();
    if (uplink.online()) await cloud.tell({ status: "offline" }); // last: what else it tells says that it is there
    cancel();
    client.end(); // what nobody waits for
    store.close();
  };
  try {
    const web = await openConsole(config.console, {
      floor, state, operators, scans, lanes, cloud, station: config.station, keyboard: keyboardOf(config), setPaused,
    }); // oxfmt-ignore
    say(
      "info",
      { event: "station", station: config.station ?? null, printers: config.printers.map(({ name }) => name) },
      "the station works",
    );
    return { url: web.url, wake: claims.wake, state, store, end: () => end(web) };
  } catch (error) {
    await end();
    throw error;
  }
}

const steadyClock = (clock: Clock = systemClock, say: Say) =>
  steady(clock, (ms) =>
    say(
      "warn",
      { event: "clock", back_s: Math.round(ms / 1_000) },
      `the clock was set back by ${spanOf(ms)}: the station's own time runs on`,
    ),
  );

/** Paused it begins no new label, in the runs after this one as well. */
function pauseOf({ store, news, say }: Floor) {
  let isOn = store.meta("paused") === "true";
  return {
    isOn: () => isOn,
    set: (is: boolean): void => {
      store.setMeta("paused", String(is));
      isOn = is;
      say("info", { event: is ? "paused" : "resumed" }, is ? "paused: no new label is begun" : "resumed");
      news.beat();
    },
  };
}

/** What the run before this one has left, before anything new is begun. */
function takeUp(floor: Floor): void {
  const { store, say } = floor;
  const aside = store.setAside();
  if (aside)
    say(
      "error",
      { event: "buffer", ...aside },
      `the buffer couldn't be read (${aside.why}): it is set aside as ${aside.file}, and one begins anew`,
    );
  if (store.lost > 0)
    say(
      "error",
      { event: "buffer", lost: store.lost },
      `${store.lost} ${store.lost === 1 ? "label was" : "labels were"} begun here that the buffer doesn't know: it was put back to how it was, or is a new one; the cloud is asked what it has heard`,
    );
  store.distrustLeases();
  recover(floor);
  takeOver(floor);
}

/** Every station has one, named in the settings or not. */
const keyboardOf = ({ scanners }: AgentConfig) => ({
  name: "console",
  port: "",
  ...scanners.find(({ driver }) => scannerDrivers[driver].port === "none"),
});

/** The settings' scanners. */
function openScanners({ scanners }: AgentConfig, scans: Scans, { clock, news, say }: Floor): Scanner[] {
  const link = (name: string, now: Link) => {
    say(now.up ? "info" : "warn", { event: "scanner", scanner: name, up: now.up }, now.up ? `${name} is there` : `${name}: ${now.why}`);
    news.beat();
  };
  const told = { ...scans.heard, link };
  return scanners.map(({ name, driver, port = "", simulated = false }) => openScanner({ name, driver, port, simulated }, told, clock));
}
