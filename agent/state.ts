// How the station is, as one value: what its page shows, what integrators poll, what the cloud is told.
import program from "../package.json" with { type: "json" };
import { saying } from "#shared/sayings.ts";
import { maySkip } from "./answers.ts";
import { allowedFor, type Ask, askOf, asks, type Attempt, isRisky, paperMayExist, stages } from "./attempt.ts";
import type { Store } from "./buffer.ts";
import { OPEN_LABELS } from "./buffer-labels.ts";
import type { Clock } from "./clock.ts";
import type { AgentConfig } from "./config.ts";
import { markOf } from "./drawing.ts";
import type { Lane } from "./lane.ts";
import type { Notice } from "./notices.ts";
import { isWorking, type PressState } from "./press.ts";
import type { Scanner } from "./scanners/scanner.ts";
import type { Link } from "./reconnecting.ts";
import type { Scans } from "./scans.ts";
import type { Standing } from "./standing.ts";
import type { Uplink } from "./uplink.ts";

type StateDeps = {
  config: AgentConfig;
  store: Store;
  clock: Clock;
  lanes: Lane[];
  scanners: Scanner[];
  scans: Scans;
  uplink: Uplink;
  standing: Standing;
  paused(): boolean;
  lines(): string[];
  notices(): Notice[];
  broker(): Link;
};
type Condition = { printers: readonly Pick<PressState, "status">[]; stopped: string | null; notices: readonly Notice[] };
/** What the cloud is told, whichever way it hears it. */
export const conditionOf = ({ printers, stopped, notices }: Condition): "online" | "degraded" =>
  printers.every(isWorking) && stopped === null && notices.length === 0 ? "online" : "degraded";

const SHOWN = 50;
const iso = (at: number | null) => (at === null ? null : new Date(at).toISOString());

export type State = ReturnType<typeof stateOf>;
export function stateOf(deps: StateDeps) {
  const { config, store, clock, lanes, scanners, scans, uplink, standing } = deps;
  const notices = deps.notices();
  const open = [...store.inHand(), ...store.orphans()].toSorted((a, b) => a.createdAt - b.createdAt);
  const { count, oldestAt, pictures } = store.depth();
  const printers = lanes.map((lane) => printerOf(lane, open));
  const refused = store.quarantined(SHOWN);
  const stopped = uplink.stopped() ?? store.fault();
  return {
    station: config.station ?? null,
    device_id: standing.info()?.device.id ?? null,
    version: program.version,
    cloud: config.cloud,
    online: uplink.online(),
    /** In the cloud's word for its devices. */
    status: uplink.online() ? conditionOf({ printers, stopped, notices }) : "offline",
    paused: deps.paused(),
    /** Why no jobs are claimed, where it isn't for want of any. */
    stopped,
    notices,
    /** Hints by MQTT; without them it polls. */
    broker: linkOf(deps.broker()),
    simulated: config.printers.some(({ simulated }) => simulated) || config.scanners.some(({ simulated }) => simulated),
    printers,
    scanners: scanners.map((scanner, i) => ({
      name: scanner.name,
      driver: config.scanners[i]?.driver ?? "keyboard",
      simulated: config.scanners[i]?.simulated ?? false,
      ...linkOf(scanner.link()),
      last: scans.last(scanner.name),
    })),
    jobs: [...open, ...store.unheard(SHOWN)].map((attempt) => jobOf(attempt, store)),
    sealing: store.sealing(),
    recent: store.recent(SHOWN).map((attempt) => ({ ...jobOf(attempt, store), ended: attempt.ended, ended_at: iso(attempt.updatedAt) })),
    queue_ahead: open.filter((one) => !paperMayExist(one) && one.printer === null).length,
    buffer_depth: count,
    buffer: {
      depth: count,
      oldest_at: iso(oldestAt),
      oldest_age_ms: oldestAt === null ? null : clock.now() - oldestAt,
      pictures,
      fault: store.fault(),
    },
    ledger: {
      counts: store.labelCounts(),
      open: store.openLabels(SHOWN).map((row) => ({ ...row, at: iso(row.at), changed_at: iso(row.changed_at) })),
      open_states: OPEN_LABELS,
    },
    quarantine: refused.map((row) => ({ ...row, at: iso(row.at) })),
    /** Of which the list has the last ones. */
    quarantined: refused.length < SHOWN ? refused.length : store.quarantineCount(),
    log: deps.lines(),
    at: iso(clock.now()),
  };
}

const linkOf = (link: Link): { up: boolean; words: string } => ({ up: link.up, words: link.up ? "connected" : link.why });

function printerOf({ config, state }: Lane, open: Attempt[]) {
  const { status, words, since, capabilities, warnings, faults } = state();
  const current = open.find(({ printer, stage }) => printer === config.name && stage !== "orphan");
  return {
    name: config.name,
    driver: config.driver,
    port: config.port,
    status,
    words,
    since: iso(since),
    faults,
    warnings: [...(capabilities?.warnings ?? []), ...warnings],
    job_ref: current?.jobRef ?? null,
    label: { width_mm: config.label.widthMm, height_mm: config.label.heightMm, dpi: config.dpi },
    has_simulator: config.control !== undefined,
    attest: config.attest,
    rfid: config.rfid,
    simulated: config.simulated,
    ceiling: capabilities?.ceiling ?? null,
    cannot_detect: capabilities?.cannotDetect ?? [],
    identity: capabilities?.identity ?? null,
  };
}

const wordsOf = ({ stage, work }: Attempt, ask: Ask): string =>
  work.sealedBefore && !paperMayExist({ stage }) ? saying("ask_sealed_before") : (work.unknown ?? work.failing ?? asks[ask].words);

function jobOf(attempt: Attempt, store: Store) {
  const { attemptId, jobRef, task, printer, stage, ended, updatedAt, askSince, work } = attempt;
  const kind = askOf(attempt);
  return {
    job_ref: jobRef,
    attempt_id: attemptId,
    attempt: task.attempt,
    /** What stands on the label, beside its serial. */
    mark: markOf(task),
    state: stage === "sealing" && ended === null ? stages.sealing.state : (store.lastState(attemptId) ?? "CLAIMED"), // sealed is what the cloud has sealed
    stage,
    says: stages[stage].says,
    printer,
    duplicate_risk: isRisky(attempt),
    /** Labels of it that came out void and haven't been destroyed. */
    voids: work.voids ?? 0,
    product: task.product_name,
    gtin: task.gtin,
    serial: task.serial,
    digital_link: task.digital_link,
    needs: task.needs,
    ask: kind === null ? null : { kind, since: iso(askSince), words: wordsOf(attempt, kind) },
    allowed: allowedFor(attempt),
    may_skip: maySkip(attempt),
    updated_at: iso(updatedAt),
  };
}
