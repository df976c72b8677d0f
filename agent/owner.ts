// Whose buffer this is: what was heard as one device is said as that device, and shown to no other tenant's cloud.
import { hash } from "node:crypto";
import type { Station as StationInfo } from "#shared/wire/devices.ts";
import { paperMayExist } from "./attempt.ts";
import type { Store } from "./buffer.ts";
import type { CloudClient, NoAnswer } from "./cloud.ts";

/** The cloud, for as long as this key's device is the one whose words wait here; who it is, is asked where the key is a new one. */
export function asOwner(cloud: CloudClient, store: Store, { key, dataDir }: { key: string; dataDir: string }): CloudClient {
  const mark = hash("sha256", key, "hex");
  const earlier = () => store.kept("station");
  // With another key this may be another device, for which what is claimed is signed: a buffer that owes nothing forgets whose it was.
  if (store.meta("key") !== mark && !isOwing(store)) store.keep("station", null);
  let isOurs = earlier() === null || store.meta("key") === mark;
  let refusal: NoAnswer | undefined;

  async function station(): ReturnType<CloudClient["station"]> {
    const said = await cloud.station();
    if (!said.ok) return said;
    const [was, is] = [earlier()?.device, said.value.device];
    isOurs = was === undefined || was.id === is.id || !isOwing(store);
    refusal =
      isOurs || was === undefined ? undefined : { ok: false, status: 403, code: "OTHER_DEVICE", message: otherDevice(dataDir, was, is) };
    if (refusal) return refusal;
    if (store.meta("key") !== mark) store.setMeta("key", mark);
    return said;
  }
  const guarded =
    <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T | NoAnswer> => {
      const said = isOurs ? undefined : (refusal ?? (await station()));
      return said && !said.ok ? said : call(...args);
    };
  return {
    ...cloud,
    station,
    tell: guarded(cloud.tell),
    claim: guarded(cloud.claim),
    heartbeat: guarded(cloud.heartbeat),
    result: guarded(cloud.result),
    results: guarded(cloud.results),
    orphan: guarded(cloud.orphan),
    issue: guarded(cloud.issue),
    jobs: guarded(cloud.jobs),
    evidence: guarded(cloud.evidence),
    picture: guarded(cloud.picture),
  };
}

/** Words that the cloud hasn't heard, or labels of which there will be some; what isn't begun another may print. */
function isOwing(store: Store): boolean {
  const { count, pictures } = store.depth();
  const attempts = [...store.inHand(), ...store.orphans()].filter(paperMayExist);
  return count + pictures + attempts.length + store.sealing() > 0;
}

type Device = StationInfo["device"];
const named = ({ name, id }: Device) => `${JSON.stringify(name)} (${id})`;
/** What to do with a buffer in which another device's words wait. */
export const otherDevice = (dataDir: string, was: Device, is: Device): string =>
  `the buffer in ${dataDir} holds what the device ${named(was)} hasn't told yet, and this key is of ${named(is)}: start with a key of that device until all is told, or give this agent another dataDir`;
