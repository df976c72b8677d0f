// What the whole page knows: who is signed in, the floor as the stream tells it, and where in the page one is.
import { holds, type Scope } from "#shared/scopes.ts";
import { computed, signal } from "#shared/web/dom.ts";
import { listenTo } from "#shared/web/live.ts";
import type { ConsoleSession, Summary } from "#shared/wire/console.ts";
import type { Device } from "#shared/wire/devices.ts";
import { get, onSignedOut, type Refused, send } from "./api.ts";

/** undefined while nobody knows; null when nobody is signed in. */
export const session = signal<ConsoleSession | null | undefined>(undefined);
/** The session that this page had is over, and not by the hand that is here. */
export const wasEnded = signal(false);
/** Signing out was asked for and didn't get through: who walks away now leaves the session to the next. */
export const isStillIn = signal(false);
export const summary = signal<Summary | undefined>(undefined);
/** By id; those that the stations' view has loaded, kept up to date by the stream. */
export const devices = signal<ReadonlyMap<string, Device>>(new Map());
/** The clock that "ago" is told by: the cloud's, whatever this screen's says. */
export const now = signal(Date.now());
let skewMs = 0;
const tick = () => {
  now.value = Date.now() + skewMs;
};
setInterval(tick, 10_000);

export const may = (scope: Scope): boolean => holds(session.value?.scopes ?? [], scope);

/** Views look again when something of a topic that they show has changed. */
type Listener = { topics: readonly string[]; look(): void };
const listeners = new Set<Listener>();
export function whenChanged(topics: readonly string[], look: () => void): () => void {
  const listener = { topics, look };
  listeners.add(listener);
  return () => listeners.delete(listener);
}
const changed = (topics?: readonly string[]) => {
  for (const listener of listeners) if (!topics || listener.topics.some((topic) => topics.includes(topic))) listener.look();
};

export function keepDevices(found: readonly Device[], removed: readonly string[] = []): void {
  const next = new Map(devices.value);
  for (const device of found) next.set(device.id, device);
  for (const id of removed) next.delete(id);
  devices.value = next;
}

let opened = false;
export const live = listenTo("/console/events", {
  opened: () => {
    if (opened) changed(); // whatever was missed meanwhile
    opened = true;
  },
  refused: () => void get("/console/session"), // which ends the page's session too, if it is over
  ended: () => {
    over();
    void resume(); // another tab may have exchanged the cookie for somebody else's
  },
  events: {
    alive: (data) => {
      const { tenant, at } = data as { tenant: string; at: string };
      skewMs = Date.parse(at) - Date.now();
      tick();
      if (tenant === session.value?.tenant.id) return;
      over(); // another tab has signed in as somebody else, and the cookie is theirs
      void resume();
    },
    summary: (data) => {
      summary.value = data as Summary;
    },
    devices: (data) => {
      const { devices: found, removed } = data as { devices: Device[]; removed: string[] };
      keepDevices(found, removed);
    },
    changed: (data) => changed((data as { topics: string[] }).topics),
  },
});

function over(): void {
  live.stop();
  opened = false;
  wasEnded.value ||= Boolean(session.value);
  session.value = null;
  isStillIn.value = false;
  summary.value = undefined;
  devices.value = new Map();
}
onSignedOut(over);

function begun(found: ConsoleSession): void {
  session.value = found;
  wasEnded.value = false;
  live.start();
}

let asksAgain: ReturnType<typeof setTimeout> | undefined;
export async function resume(): Promise<void> {
  const { data, refused } = await get<ConsoleSession>("/console/session");
  clearTimeout(asksAgain); // of whoever asked meanwhile: else each look at a tab that waits would add another who asks
  if (data) begun(data);
  else if (refused.fault === "busy") asksAgain = setTimeout(() => void resume(), refused.retryMs);
  else session.value = null;
}

/** Whoever comes back to a tab that nobody was signed in at may have signed in at another meanwhile: the cookie is for both. */
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && session.value === null) void resume();
});

export async function signIn(body: object): Promise<Refused | undefined> {
  const { data, refused } = await send<ConsoleSession>("POST", "/console/session", body);
  if (!data) return refused;
  const kept = await get<ConsoleSession>("/console/session");
  if (kept.refused?.fault === "signed-out") return { ...kept.refused, code: "NO_COOKIE", message: "" }; // over http it isn't taken where https is meant
  begun(data);
  return undefined;
}

export async function signOut(): Promise<void> {
  const { refused } = await send("DELETE", "/console/session");
  if (refused && session.value) isStillIn.value = true;
  else {
    over();
    wasEnded.value = false;
  }
}

// The place in the page is its fragment, so that a reload, a link and the browser's back button all lead there.
const hash = signal(location.hash);
addEventListener("hashchange", () => {
  hash.value = location.hash;
});
/** What can't be decoded stays as it is: a place that isn't there. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
export const place = computed(() => {
  const [path = "", query = ""] = hash.value.replace(/^#\/?/, "").split("?", 2);
  const [view = "", ...rest] = path.split("/").map(decoded);
  return { view, id: rest[0], query: new URLSearchParams(query) };
});
export const goTo = (path: string): void => {
  location.hash = path;
};
