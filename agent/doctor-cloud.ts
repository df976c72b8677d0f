// What the doctor finds beyond this machine: whether the cloud knows our key and lets it work, whose clock is right, whether hints arrive.
import { randomUUID } from "node:crypto";
import { connectAsync } from "mqtt";
import type { Station } from "#shared/wire/devices.ts";
import { steady, systemClock } from "./clock.ts";
import { cloudClient, type CloudClient, type Said } from "./cloud.ts";
import { cloudTime, spanOf } from "./cloud-time.ts";
import type { AgentConfig } from "./config.ts";
import { type Line, linesOf } from "./doctor-line.ts";
import { heardOf, isAbout, ONE_KEY, whyUnmet } from "./meeting.ts";
import type { State } from "./state.ts";
import { reachable } from "./wake.ts";

export type Meeting = { cloud: CloudClient; said: Said<Station>; clock: string | null; skewMs: number | null };
const ANSWER_MAX_MS = 5_000;
const NOBODYS_JOB = `pj_${"0".repeat(26)}`;

export async function meetCloud({ cloud: origin, key }: AgentConfig): Promise<Meeting> {
  const clock = steady(systemClock, () => {});
  const time = cloudTime(clock, () => {});
  const cloud = cloudClient(origin, key, { timeoutMs: ANSWER_MAX_MS, heard: { now: clock.now, date: time.heard } });
  const said = await cloud.station();
  return { cloud, said, clock: time.words(), skewMs: time.skew() };
}

/** `isAtWork`: an agent runs here, as far as can be told. */
export async function cloudLines(config: AgentConfig, { cloud, said, clock, skewMs }: Meeting, isAtWork: boolean): Promise<Line[]> {
  const { cloud: origin, station } = config;
  const { well, odd, bad } = linesOf("cloud");
  const time = clockLine(clock, skewMs);
  if (!said.ok) return [bad(whyUnmet(origin, said)), time];
  const { device, tenant } = said.value;
  const words = `${origin} knows ${JSON.stringify(device.name)} of the tenant ${tenant.id}${tenant.sandbox ? ", a sandbox" : ""}`;
  const elsewhere = station !== undefined && device.station !== null && device.station !== station;
  return [
    elsewhere
      ? odd(`${words}; it is at the station ${JSON.stringify(device.station)} there and at ${JSON.stringify(station)} here: say the same`)
      : well(words),
    ...(tenant.sandbox
      ? []
      : simulatedIn(config).map((name) => bad(`${name} is marked simulated, and this tenant is no sandbox: nothing of it can be sealed`))),
    ...(isAtWork || !isAbout(device) ? [] : [odd(`${heardOf(device)}, and no agent runs here with these settings: ${ONE_KEY}`)]),
    await mayWrite(origin, cloud),
    time,
  ];
}

const simulatedIn = ({ printers, scanners }: AgentConfig): string[] =>
  [...printers, ...scanners].flatMap(({ name, simulated }) => (simulated ? name : []));

function clockLine(wrong: string | null, skewMs: number | null): Line {
  const { well, odd } = linesOf("clock");
  if (skewMs === null) return odd("can't be compared: the cloud says no time");
  if (wrong === null) return well(`${spanOf(skewMs)} from the cloud's`);
  return odd(`${wrong} (timedatectl set-ntp true); labels go on, their times are wrong`);
}

/** A heartbeat of a job that isn't: refused for the job where the key may say so, for its scope where it may not. */
async function mayWrite(origin: string, cloud: CloudClient): Promise<Line> {
  const { well, bad } = linesOf("scopes");
  const said = await cloud.heartbeat(NOBODYS_JOB, randomUUID(), 60);
  if (said.ok || said.code === "NOT_FOUND") return well("the key may claim and report: aidc:read, aidc:write");
  return bad(whyUnmet(origin, said));
}

export async function brokerLine(config: AgentConfig, { said }: Meeting, running: State | undefined): Promise<Line> {
  const { well, odd } = linesOf("broker");
  const polls = "without it the station polls, and works";
  if (running) {
    const { up, words } = running.broker;
    return up ? well(words) : odd(`${words}; ${polls}`);
  }
  if (!said.ok) return odd(`isn't known without the cloud; ${polls}`);
  const { device, mqtt } = said.value;
  const url = config.mqtt ?? mqtt?.url;
  if (url === undefined) return well(`the cloud has none; ${polls}`);
  const place = reachable(url, config.cloud, { username: device.id, password: config.key });
  try {
    // Under a name of its own: the station's own would end a connection that it has.
    const client = await connectAsync(place.url, {
      username: place.username, password: place.password, clientId: `doctor-${randomUUID()}`, protocolVersion: 4, reconnectPeriod: 0, connectTimeout: ANSWER_MAX_MS,
    }, false); // oxfmt-ignore
    await client.endAsync();
    return well(`${place.url} lets us in`);
  } catch (error) {
    const { message, code } = error as Error & { code?: string | number };
    const isRefused = typeof code === "number"; // the broker's own word; else the network's
    const help = isRefused
      ? "it has to know this device, by its id and key"
      : "is its port open to this machine? If it has another address here, set `mqtt`";
    return odd(`${place.url}: ${message || String(code)}; ${help}; ${polls}`);
  }
}
