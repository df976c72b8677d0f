// A page that stands open over an upgrade: it notices that its script is another by now, says so, and loads itself anew once nobody is at it.
import { signal } from "./dom.ts";

/** Nobody has touched the page for so long that nothing on it is being read any more. */
const CALM_MS = 60_000;
const LOOK_MS = 5_000;
/** It looks again now and then: when it took its line up anew, a balancer may have led it to the node that was upgraded last. */
const AGAIN_MS = 600_000;
/** Before it has stood so long it doesn't load itself anew: where a node stays behind, that would go on without an end. */
const STOOD_MS = 600_000;

export const isOld = signal(false);
export const renew = (): void => location.reload();

/** Its text, not its tag: what stands between may make another of that. */
async function scriptAt(url: string, cache: RequestCache): Promise<string | undefined> {
  try {
    const response = await fetch(url, { cache });
    const isScript = /javascript/.test(response.headers.get("content-type") ?? ""); // not a proxy's page
    return response.ok && isScript ? await response.text() : undefined;
  } catch {
    return undefined;
  }
}

/** `isFree`: nothing is typed, decided or told that would be lost. What it returns looks whether the script is still the same. */
export function followScript(url: string, isFree: () => boolean): () => Promise<void> {
  const own = scriptAt(url, "force-cache"); // as it came to this page
  let touchedAt = performance.now();
  const touched = () => (touchedAt = performance.now());
  for (const kind of ["keydown", "pointerdown", "wheel"]) addEventListener(kind, touched, { capture: true, passive: true });

  async function isOther(): Promise<boolean | undefined> {
    const [mine, theirs] = await Promise.all([own, scriptAt(url, "no-cache")]);
    if (mine === undefined || theirs === undefined) return undefined;
    if (mine === theirs) return false;
    return (await scriptAt(url, "no-cache")) === theirs || undefined; // nor one that something on the way makes another each time
  }
  const isCalm = () => isFree() && performance.now() >= STOOD_MS && performance.now() - touchedAt >= CALM_MS;
  async function onceCalm(): Promise<void> {
    if (isOld.peek() && isCalm() && (await isOther()) && isCalm()) renew(); // of one that doesn't answer nothing would be left
  }
  async function look(): Promise<void> {
    const is = (await isOther()) ?? isOld.peek();
    if (is && !isOld.peek()) touched(); // it is to be read
    isOld.value = is;
  }
  setInterval(() => void onceCalm(), LOOK_MS);
  setInterval(() => void look(), AGAIN_MS);
  return look;
}
