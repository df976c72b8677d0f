// A page that stands open over an upgrade, with what may stand between it and its script: nodes of two versions, a proxy that writes into it, none that answers.
import { beforeEach, expect, test, vi } from "vitest";

type Followed = {
  isOld: { readonly value: boolean };
  followScript(url: string, isFree: () => boolean): () => Promise<void>;
};
const MINUTE_MS = 60_000;
const PAGE = "../../shared/web/upgrade.ts"; // for a browser: what it finds there is put in its place

beforeEach(() => {
  vi.useFakeTimers(); // with performance.now, which begins with the page
  return () => {
    vi.unstubAllGlobals();
    vi.useRealTimers();
  };
});
let pages = 0;

/** A page that has just come, with the scripts that it is answered one after the other, the last one ever after; none where nobody answers. */
async function opened(...scripts: (string | undefined)[]) {
  let asked = 0;
  const reload = vi.fn();
  vi.stubGlobal("location", { reload });
  vi.stubGlobal("addEventListener", () => {});
  const answer = (text = "", status = 200) => new Response(text, { status, headers: { "content-type": "text/javascript" } });
  vi.stubGlobal("fetch", async () => {
    const text = scripts[Math.min(asked, scripts.length - 1)];
    asked += 1;
    return text === undefined ? answer("", 503) : answer(text);
  });
  const { followScript, isOld } = (await import(`${PAGE}?page=${(pages += 1)}`)) as Followed;
  const look = followScript("/app.js", () => true);
  const pass = (minutes: number) => vi.advanceTimersByTimeAsync(minutes * MINUTE_MS);
  await pass(0);
  return { look, pass, isOld, isLeft: () => reload.mock.calls.length > 0, becomes: (...next: (string | undefined)[]) => ((asked = 0), (scripts = next)) };
} // oxfmt-ignore

test("it loads itself anew once nobody has touched it for a minute since it said so", async () => {
  const { look, pass, isOld, isLeft, becomes } = await opened("one");
  await look();
  await pass(15);
  expect([isOld.value, isLeft()]).toEqual([false, false]);
  becomes("two");
  await look();
  expect([isOld.value, isLeft()]).toEqual([true, false]);
  await pass(0.9);
  expect(isLeft()).toBe(false);
  await pass(0.2);
  expect(isLeft()).toBe(true);
});

test("where a node stays behind, a page that was loaded anew doesn't go on doing so minute by minute", async () => {
  const { look, pass, isOld, isLeft } = await opened("two", "one");
  await look();
  expect(isOld.value).toBe(true); // a person may still have it at once
  await pass(8);
  expect(isLeft()).toBe(false);
});

test("a script that something on the way makes another each time is no sign of an upgrade", async () => {
  const { look, pass, isOld, isLeft } = await opened(...Array.from({ length: 200 }, (_, n) => `one // ${n}`));
  for (let n = 0; n < 5; n += 1) await look();
  await pass(30);
  expect([isOld.value, isLeft()]).toEqual([false, false]);
});

test("what its first look didn't see, as a node to be upgraded answered it or none did, it sees without its line breaking once more", async () => {
  for (const missed of ["one", undefined]) {
    const { look, pass, isOld, becomes } = await opened("one");
    becomes(missed);
    await look();
    becomes("two");
    await pass(10.1);
    expect([missed, isOld.value]).toEqual([missed, true]);
  }
});
