// The station's console in a real browser, on a real station between a simulated floor and a real cloud: what an operator in gloves sees, hears of and can do.
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Browser, BrowserContextOptions, Locator, Page } from "playwright-core";
import { closeContext, openBrowser } from "../../fixtures/browser.ts";
import { OPERATOR } from "../../fixtures/floor.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startProxy } from "../../fixtures/tcp-proxy.ts";
import { startZplPrinter } from "../../fixtures/printers/zpl.ts";
import { systemClock } from "../../agent/clock.ts";
import { listening } from "../../fixtures/listening.ts";
import { BEAT_MS } from "../../shared/beat.ts";
import {
  ask,
  asked,
  floorOf,
  jobAt,
  lineBehindNet,
  lineOf,
  netTo,
  HASTY,
  running,
  type Running,
  say,
  sealed,
  sealedHere,
  setBack,
  stateInCloud,
  stationOn,
  until,
} from "../agent/floor.ts";
import { world } from "../world.ts";
import {
  axeSays,
  cutTexts,
  englishOn,
  executable,
  keepsNothing,
  LANGUAGES,
  opened,
  overflow,
  PANEL,
  PHONE,
  type Seen,
  shot as picture,
  smallTargets,
} from "./eyes.ts";

const TOUCH_PX = 64;
/** The touch screen of a small computer. */
const SMALL_PANEL = { width: 800, height: 480 };
/** 1280×1024 at 400 %. */
const ZOOMED = { width: 320, height: 256 };
const KEY_MS = 2;
/** A clock is stopped ahead of where it is by then: it can't go back. */
const LEAP_MS = 10_000;
const TWICE_MS = 100;
const ENDS = {
  Enter: { key: "Enter", code: "Enter", windowsVirtualKeyCode: 13, text: "\r" },
  Tab: { key: "Tab", code: "Tab", windowsVirtualKeyCode: 9 },
  Space: { key: " ", code: "Space", windowsVirtualKeyCode: 32, text: " " },
} as const;
const HAND = { eyes: "hand", config: { attest: "operator" } } as const;

describe.skipIf(!executable)("the console", async () => {
  const w = await world();
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser(executable ?? "");
  });
  afterAll(() => browser?.close());

  type Ends = { onTestFinished(end: () => Promise<void>): void };
  /** Whatever a test does, the page asks nobody else for anything and breaks no rule of its policy. */
  async function visit(t: Ends, { url }: Pick<Running, "url">, options: BrowserContextOptions = {}, hash = ""): Promise<Seen> {
    const seen = await opened(browser, { viewport: PANEL, locale: "en", ...options });
    const { page, context, requests, complaints } = seen;
    t.onTestFinished(async () => {
      expect(requests.filter((asked) => !asked.startsWith(url) && !asked.startsWith("data:"))).toEqual([]);
      expect(complaints.filter((text) => !/Failed to load resource/.test(text))).toEqual([]); // a refusal of the station's is an answer
      await closeContext(context);
    });
    await page.goto(`${url}/${hash}`);
    await page.locator(".side, .labels, .upkeep").waitFor();
    return seen;
  }
  const shot = (page: Page, name: string, fullPage = false) => picture(page, `station/${name}`, fullPage);
  /** As a scanner that plays keyboard does: keys come with the times at which they were pressed, however busy the machine is that presses them. */
  const wedge = async (page: Page, text: string, ends: readonly (keyof typeof ENDS)[] = ["Enter"], lateMs = 0) => {
    const keyboard = await page.context().newCDPSession(page);
    const began = Date.now();
    const keys = [...text.split("").map((key) => ({ key, text: key })), ...ends.map((end) => ENDS[end])];
    await Promise.all(
      keys.flatMap((key, i) =>
        (["keyDown", "keyUp"] as const).map((type, up) =>
          keyboard.send("Input.dispatchKeyEvent", {
            ...key,
            type,
            timestamp: (began + i * KEY_MS + up + (i < text.length ? 0 : lateMs)) / 1_000,
          }),
        ),
      ),
    );
    await keyboard.detach();
  };
  const button = (page: Page, name: string | RegExp) => page.getByRole("button", { name });
  const centre = async (one: Locator) => {
    await one.click({ trial: true }); // it can be pressed
    const { x = 0, y = 0, width = 0, height = 0 } = (await one.boundingBox()) ?? {};
    return [x + width / 2, y + height / 2] as const;
  };
  /** The page's clock stands still meanwhile: what it holds off for a moment it holds off, however busy the machine is that taps. */
  const inThatMoment = async (page: Page, act: () => Promise<unknown>) => {
    await page.clock.install();
    await page.clock.pauseAt((await page.evaluate<number>("Date.now()")) + LEAP_MS);
    await act();
    await page.clock.resume();
  };
  const tapTwice = (page: Page, there: readonly [number, number]) =>
    inThatMoment(page, async () => {
      await page.mouse.click(...there);
      await page.clock.runFor(TWICE_MS);
      await page.mouse.click(...there);
    });
  type Colour = "good" | "bad" | "warn";
  const outcome = (page: Page, colour: Colour, hasText: string | RegExp = "") => page.locator(`.outcome.${colour}`, { hasText });
  /** Looked for from before it happens, as it may not stay. */
  const shows = (page: Page, [colour, says]: [Colour, string | RegExp], act: () => Promise<unknown>) =>
    Promise.all([outcome(page, colour, says).waitFor(), act()]);
  /** Of which label something is asked, what, and the answers: each in view, and nothing over it. */
  const unseen = (page: Page) =>
    page.evaluate<string[]>(`[".hero dl:first-child .code", ".question .headline", ".question .answers button"].flatMap((what) => {
      const all = [...document.querySelectorAll(what)];
      const hidden = all.filter((one) => {
        const { left, right, top, bottom } = one.getBoundingClientRect();
        return top < 0 || bottom > innerHeight || ![top + 4, bottom - 4].every((y) => one.contains(document.elementFromPoint((left + right) / 2, y)));
      });
      return all.length === 0 ? [what + " isn't there"] : hidden.map((one) => one.textContent);
    })`);
  const within = async (page: Page, what: string) => {
    const { x = -1, width = 0 } = (await page.locator(what).boundingBox()) ?? {};
    return x >= 0 && x + width <= (page.viewportSize()?.width ?? 0);
  };
  /** By hand, unless it has gone by itself. */
  const dismissed = async (page: Page, colour: Colour) => {
    await outcome(page, colour).click({ timeout: 2_000 }).catch(() => {}); // oxfmt-ignore
    await outcome(page, colour).waitFor({ state: "detached" });
  };
  /** It lets its line go while it is hidden, and takes it up anew when it is shown, as after a restart. */
  const lookedAtAgain = (page: Page) => page.evaluate(`document.dispatchEvent(new Event("visibilitychange"))`);
  /** From here on the station is what the test tells the page. */
  async function toldBy(page: Page) {
    await page.evaluate(`globalThis.EventSource = class extends EventTarget {
      constructor() { super(); globalThis.tell = (state) => this.dispatchEvent(new MessageEvent("state", { data: JSON.stringify(state) })); setTimeout(() => this.dispatchEvent(new Event("open"))); }
      close() {}
    }`);
    await lookedAtAgain(page);
    return (state: object) => page.evaluate(`globalThis.tell(${JSON.stringify(state)})`);
  }
  const isAsked = (station: Running, ref: string, kind: string) => until(() => asked(station, ref) === kind);

  test("an operator signs in by badge, says that the label is good, and scans it: the whole screen is green, and the job is sealed", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref, digital_link: link, serial } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station);
    await page.getByText("Is the label out, and good?").waitFor();
    await page.getByText("Kettle 1.7").waitFor();
    expect(await page.locator(".strip [aria-current=step]").getAttribute("data-state")).toBe("SPOOL_SUBMITTED");
    const box = await page.locator(".paper").boundingBox();
    expect((box?.width ?? 0) / (box?.height ?? 1)).toBeCloseTo(2, 1); // 50 x 25 mm
    await shot(page, "asks");
    await button(page, "Pause").focus();
    await wedge(page, OPERATOR.badge);
    await page.getByText("Ada says:").waitFor();
    expect(station.state().paused).toBe(false); // Enter at a scan's end presses nothing
    await shot(page, "signed-in");
    await button(page, "Label is out and good").click();
    await page.getByText("Scan this label").waitFor();
    await page.locator(".frame").waitFor({ state: "detached" });
    await shot(page, "scan");
    await shows(page, ["good", serial as string], () => wedge(page, link));
    await shot(page, "sealed");
    await sealed(shop, ref);
    await outcome(page, "good").waitFor({ state: "detached" }); // by itself: the next label comes
    await page.getByText("No label in hand").waitFor();
    expect(await page.locator(".strip .done").count()).toBe(7);
    await shot(page, "idle");
    const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body;
    expect(data.find(({ to }: { to: string }) => to === "PRINTED_ATTESTED").actor).toMatchObject({ kind: "operator", id: OPERATOR.id });
    expect(data.find(({ to }: { to: string }) => to === "SCAN_VERIFIED").actor).toMatchObject({ kind: "operator", id: OPERATOR.id });
  });

  test("a wrong label is red until somebody has seen it, from a keyboard scanner and from a fixed one; an unknown badge too", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    const { job_ref: ref, digital_link: link } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    await until(() => station.floor.scanner?.listeners() === 1);
    const { page } = await visit(t, station);
    const wrong = link.replace(/\d$/, (digit: string) => String((Number(digit) + 1) % 10));
    await shows(page, ["bad", /Wrong label[^]*another serial number/], () => wedge(page, wrong, ["Tab"]));
    await shot(page, "wrong");
    await outcome(page, "bad").click();
    await outcome(page, "bad").waitFor({ state: "detached" });
    for (let i = 0; i < 2; i += 1) {
      await station.floor.scanner?.scan(wrong); // the second time it is news again
      await outcome(page, "bad").click();
      await outcome(page, "bad").waitFor({ state: "detached" });
    }
    await shows(page, ["warn", /One thing is missing[^]*sends no line end/], async () =>
      station.floor.scanner?.scan(link, { fault: "no-suffix" }),
    );
    await dismissed(page, "warn");
    await shows(page, ["bad", "Unknown code"], () => wedge(page, "B-9999"));
    expect(station.lines.join("\n")).not.toContain("B-9999");
    await shows(page, ["good", ""], () => wedge(page, link)); // the right one clears it away
  });

  test("what a scan means stands over whatever else stands over the page, and is tapped away from there", async (t) => {
    const { station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    await page.locator(".operator").click();
    await page.getByRole("heading", { name: "Scan your badge" }).waitFor();
    await shows(page, ["bad", "Neither a badge"], () => wedge(page, "B-9999"));
    await shot(page, "unknown-badge");
    await outcome(page, "bad").click({ timeout: 5_000 }); // nothing lies over it
    await outcome(page, "bad").waitFor({ state: "detached" });
    await shows(page, ["bad", "Neither a badge"], () => wedge(page, "B-9999"));
    await page.keyboard.press("Escape");
    await outcome(page, "bad").waitFor({ state: "detached" });
    expect(await page.locator("dialog .pad").count()).toBe(1);
    await inThatMoment(page, async () => {
      await wedge(page, OPERATOR.badge);
      await page.locator(".operator", { hasText: "Ada" }).click();
      await page.locator("dialog .frame").waitFor();
      await page.keyboard.press("Escape"); // a frame covers nothing
      await page.locator("dialog").waitFor({ state: "detached", timeout: 5_000 });
    });
  });

  test("a badge lets its owner in, whatever letters it has", async (t) => {
    for (const badge of ["Prüfer-0008", "张伟-0009", "SHIFT/01/7"]) {
      const { station } = await lineOf(t, w, { ...HAND, settings: { operators: [{ id: "op-8", name: "Jörg", badge }] } });
      const { page } = await visit(t, station);
      await wedge(page, badge);
      await page.locator(".frame, .outcome").waitFor();
      expect([badge, await page.locator(".operator").innerText()]).toEqual([badge, expect.stringContaining("Jörg")]);
    }
  });

  test("who is signed in at a page isn't named for what somebody else scanned elsewhere", async (t) => {
    const shop = await printShop(w);
    const other = { id: "op-8", name: "Ben", badge: "B-0008" };
    const station = await running(t, w.url, shop, { eyes: "hand", settings: { operators: [OPERATOR, other] } });
    const { job_ref: ref, digital_link: link, serial } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "printed" && station.state().buffer_depth === 0);
    const [one, two] = [(await visit(t, station)).page, (await visit(t, station)).page];
    for (const [page, { badge }] of [
      [one, OPERATOR],
      [two, other],
    ] as const) {
      await wedge(page, badge);
      await page.locator(".frame").waitFor();
    }
    const told = Promise.all([one, two].map((page) => outcome(page, "good", serial as string).innerText()));
    await wedge(one, link);
    const [ada, ben] = await told;
    expect(ada).toContain("by Ada");
    expect(ben).not.toContain("by Ben");
  });

  test("who scanned a label here is named though it was read twice, and not for its reprint that a scanner of the line reads", async (t) => {
    const { shop, net: network, station } = await lineBehindNet(t, w, { eyes: "hand" });
    const { job_ref: ref, digital_link: link, serial } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "printed" && station.state().buffer_depth === 0);
    await until(() => station.floor.scanner?.listeners() === 1);
    const { page } = await visit(t, station);
    await wedge(page, OPERATOR.badge);
    await page.locator(".frame").waitFor();
    let tell = () => {};
    const isRead = new Promise<void>((resolve) => (tell = resolve));
    network.rule(async ({ path }) => {
      if (/\/results?$/.test(path)) await isRead;
      return "pass" as const;
    });
    await wedge(page, link);
    await until(() => jobAt(station, ref)?.stage === "sealing");
    await shows(page, ["warn", ""], () => wedge(page, link)); // it is sealed already
    await shows(page, ["good", "by Ada"], async () => tell());
    const { body } = await shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial, reprint: true, reason: "worn" });
    await outcome(page, "good").waitFor({ state: "detached" });
    await until(() => jobAt(station, body.job_ref)?.stage === "printed");
    const again = page.locator(".outcome.good, .frame.good", { hasText: serial as string }).innerText();
    await station.floor.scanner?.scan(link);
    expect(await again).not.toContain("by Ada");
  });

  test("that the station didn't answer to a badge is over once it has let its owner in", async (t) => {
    const { station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    await page.route("**/api/operator", (route) => route.abort());
    await shows(page, ["bad", "The station doesn't answer"], () => wedge(page, OPERATOR.badge));
    await page.unroute("**/api/operator");
    await wedge(page, OPERATOR.badge);
    await page.locator(".frame", { hasText: "Ada" }).waitFor();
    expect(await outcome(page, "bad").count()).toBe(0);
  });

  test("red stays when somebody shows a badge meanwhile", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    const { job_ref: ref, digital_link: link } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "printed");
    await until(() => station.floor.scanner?.listeners() === 1);
    const { page } = await visit(t, station);
    await station.floor.scanner?.scan(link.replace(/\d$/, (digit: string) => String((Number(digit) + 1) % 10)));
    await outcome(page, "bad", "Wrong label").waitFor();
    await wedge(page, OPERATOR.badge);
    await expect.poll(() => page.locator(".operator").innerText()).toContain("Ada");
    await page.waitForTimeout(200);
    expect(await outcome(page, "bad", "Wrong label").count()).toBe(1);
    await shows(page, ["good", ""], () => wedge(page, link)); // the right label takes it away
  });

  test("cartons that a keyboard scanner reads keep nobody out, and the page says what the station says of them", async (t) => {
    const { station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    for (let i = 0; i < 20; i += 1) await page.request.post(`${station.url}/api/operator`, { data: { badge: `carton ${i}` } });
    await shows(page, ["warn", "too many wrong badges"], () => wedge(page, "4006381333931"));
    await wedge(page, OPERATOR.badge);
    await expect.poll(() => page.locator(".operator").innerText()).toContain("Ada");
  });

  test("a misprint is confirmed, comes again, asks for the earlier label, and prints once that is destroyed", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station);
    await button(page, /^Misprint/).click();
    await page.getByRole("heading", { name: "Scan your badge" }).waitFor(); // nobody is here yet
    await shot(page, "sign-in");
    await wedge(page, OPERATOR.badge);
    await button(page, "Yes, so it is").waitFor();
    await shot(page, "confirm");
    await shows(page, ["warn", /Given up, comes again if tries are left[^]*by Ada/], () => button(page, "Yes, so it is").click());
    await shot(page, "given-up");
    await dismissed(page, "warn");
    await isAsked(station, ref, "destroy_earlier");
    await page.getByText("The new one isn't printed yet: whatever lies here is an earlier one.").waitFor();
    await shot(page, "destroy-earlier");
    await button(page, /^Earlier label destroyed/).click();
    await button(page, "Yes, so it is").click();
    await isAsked(station, ref, "attest");
    await page.getByText("It says TRY 2.").waitFor();
    expect(await station.floor.links()).toHaveLength(2);
  });

  test("on a slow line the answer that was pressed is shown as pressed until the station has taken it, and no other", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    await wedge(page, OPERATOR.badge);
    const { job_ref: ref } = await shop.issue();
    await button(page, "Misprint").waitFor();
    const line = Promise.withResolvers<void>();
    await page.route("**/attest", async (route) => {
      await line.promise;
      await route.continue();
    });
    const pressed = () => page.locator(".answers [aria-busy=true]").allInnerTexts();
    await button(page, "Label is out and good").click();
    await expect.poll(pressed).toEqual(["Label is out and good"]);
    expect(await page.locator(".answers .button:not([aria-disabled])").count()).toBe(0);
    expect(await axeSays(page)).toEqual([]);
    await shot(page, "pressed");
    line.resolve();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    await expect.poll(pressed).toEqual([]);
  });

  test("while the station hasn't answered to one thing, another can be said: a test label of one printer holds up no answer, and where that fails it is named", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station, {}, "#upkeep");
    await wedge(page, OPERATOR.badge);
    const line = Promise.withResolvers<void>();
    await page.route("**/test", async (route) => {
      await line.promise;
      await route.abort();
    });
    await button(page, "Print a test label").click();
    await page.locator("dialog .serial", { hasText: "printer" }).waitFor();
    await button(page, "Yes, so it is").click();
    const test = page.locator(".upkeep .button[aria-busy=true]");
    await test.waitFor();
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    await page.evaluate('location.hash = "#line"');
    await button(page, "Label is out and good").click();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    await page.evaluate('location.hash = "#upkeep"');
    await test.waitFor();
    expect(await test.innerText()).toBe("Print a test label");
    line.resolve();
    await outcome(page, "bad", "printer").waitFor(); // which of the two got no answer
    await test.waitFor({ state: "detached" });
  });

  test("a page that was asleep isn't green for a label that was sealed meanwhile, and is for the next one", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await isAsked(station, ref, "attest");
    await say(station, ref, "good");
    await ask(station, "POST", "/api/scan", { text });
    await until(() => station.state().recent.length === 1);
    const [one] = station.state().recent;
    const tell = await toldBy(page);
    const at = (ms: number) => new Date(Date.parse("2026-11-29T06:00:00.000Z") + ms).toISOString();
    const told = (ms: number, ...recent: object[]) => tell({ ...station.state(), jobs: [waits], recent, online: false, at: at(ms) });
    const waits = { ...one, attempt_id: "waits", serial: "WAITS", stage: "sealing", updated_at: at(1_700_000) }; // for the cloud
    await dismissed(page, "good");
    await tell({ ...station.state(), jobs: [], recent: [], at: at(0) });
    const earlier = { ...one, attempt_id: "earlier", serial: "EARLIER", ended_at: at(1_800_000) };
    await told(3_600_000, earlier);
    await page.locator(".last", { hasText: "WAITS" }).waitFor();
    expect(await page.locator(".outcome, .frame").count()).toBe(0);
    const next = { ...one, attempt_id: "next", serial: "NEXT", ended_at: at(3_601_000) };
    const green = page.locator(".outcome.good, .frame.good", { hasText: "NEXT" }); // its edge, where one came just before
    await Promise.all([green.waitFor(), told(3_602_000, next, earlier)]);
  });

  test("a page that was asleep says that what it shows may be old until it has heard how the station is, and not only reached it", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    await isAsked(station, (await shop.issue()).job_ref, "attest");
    const { page } = await visit(t, station);
    await button(page, "Label is out and good").click({ trial: true });
    const tell = await toldBy(page);
    await page.getByText("This page has lost the station").waitFor();
    await sleep(TWICE_MS); // it is open by then
    expect(await page.getByText("This page has lost the station").count()).toBe(1);
    expect(await button(page, "Label is out and good").isDisabled()).toBe(true);
    await tell(station.state());
    await page.getByText("This page has lost the station").waitFor({ state: "detached" });
  });

  test("a browser that translates pages leaves this one alone: what it has put into a text's place doesn't follow the station", async (t) => {
    const { page } = await visit(t, await running(t, w.url, await printShop(w), HAND));
    expect(await page.evaluate("document.documentElement.translate")).toBe(false);
    expect(await page.getAttribute("meta[name=google]", "content")).toBe("notranslate");
  });

  test("who destroys void labels is told before it is done how many there are, and that the good one of the same number is kept", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand", rfid: true });
    const { page } = await visit(t, station);
    await wedge(page, OPERATOR.badge);
    station.floor.machine?.fault("rfid-void", { times: 2 });
    const { job_ref: ref } = await shop.issue({ needs: ["qr", "rfid"] });
    await isAsked(station, ref, "destroy_void");
    expect(jobAt(station, ref)?.stage).toBe("printed");
    await page.locator(".question .detail", { hasText: "To look for: 2." }).waitFor();
    await button(page, /^Void labels destroyed/).click();
    const sheet = page.locator("dialog");
    await sheet.getByText("To look for: 2. Keep the good one: it isn't void.").waitFor();
    expect(await sheet.innerText()).not.toContain("The label is destroyed");
    await shot(page, "destroy-void");
    await button(page, "Yes, so it is").click();
    await until(() => jobAt(station, ref)?.ask === null);
  });

  test("of a reprint and the worn label under the camera it says which to keep", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "camera" });
    const { serial } = await shop.issue();
    await until(() => station.state().ledger.counts["sealed"] === 1 && station.state().scanners[0]?.last?.why === "repeated");
    const { body } = await shop.admin.post("/aidc/jobs", { gtin: shop.gtin, serial, reprint: true, reason: "worn" });
    await isAsked(station, body.job_ref, "destroy_earlier");
    const { page } = await visit(t, station);
    await page.getByText("Keep the new one: it says REPRINT.").waitFor();
    await shot(page, "destroy-seen");
    await wedge(page, OPERATOR.badge);
    await button(page, /^Earlier label destroyed/).click();
    await button(page, "Yes, so it is").click();
    await until(() => station.state().ledger.counts["sealed"] === 2);
    expect(await station.floor.links()).toHaveLength(2);
  });

  test("paused it begins nothing and says so; a job can be skipped before it is begun", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    await button(page, "Pause").click();
    await page.locator(".banner", { hasText: "Nothing new is begun" }).waitFor();
    expect(station.state().paused).toBe(true);
    await button(page, "Resume").click();
    const { job_ref: first } = await shop.issue();
    const { job_ref: second } = await shop.issue();
    await isAsked(station, first, "attest");
    await until(() => jobAt(station, second) !== undefined);
    await button(page, "Pause").click();
    await wedge(page, OPERATOR.badge);
    await button(page, "Label is out and good").click();
    await until(() => jobAt(station, first)?.stage === "printed");
    await shot(page, "paused");
    await button(page, /^Reprint/).click();
    await shows(page, ["warn", ""], () => button(page, "Yes, so it is").click());
    await dismissed(page, "warn");
    await until(() => jobAt(station, first) === undefined && jobAt(station, second) !== undefined);
    await button(page, /^Skip/).click();
    await button(page, "Yes, so it is").click();
    await until(() => jobAt(station, second) === undefined);
    expect(station.state().recent.find(({ job_ref }) => job_ref === second)?.ended).toBe("let go");
    expect(await station.floor.links()).toHaveLength(1);
  });

  test("with the cloud away it says so, and labels are attested, scanned and sealed here; reports wait", async (t) => {
    const { shop, net: network, station } = await lineBehindNet(t, w, HAND);
    const { job_ref: ref, digital_link: link } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station);
    network.cut();
    await page.locator(".banner.offline").waitFor();
    await wedge(page, OPERATOR.badge);
    await button(page, "Label is out and good").click();
    await page.getByText("Scan this label").waitFor();
    await shot(page, "offline");
    await shows(page, ["good", "the cloud hears later"], () => wedge(page, link));
    await outcome(page, "good").waitFor({ state: "detached" });
    expect(station.state().buffer_depth).toBeGreaterThan(0);
    await page.reload(); // nothing of the page comes from the cloud
    await page.locator(".banner.offline", { hasText: "waiting, the oldest for" }).waitFor();
    await shot(page, "offline-sealed");
    network.mend();
    await sealed(shop, ref);
    await page.locator(".banner.offline").waitFor({ state: "detached" });
  });

  test.for<[string, { sandbox: boolean }, RegExp]>([
    ["isn't a sandbox's, though its printer is simulated", { sandbox: false }, /Refused[^]*SIMULATED_EVIDENCE/],
    ["was voided meanwhile", { sandbox: true }, /Job ended or went on elsewhere/],
  ])("what the cloud refuses is never green: a serial that %s", async ([, { sandbox }, says], t) => {
    const shop = await printShop(w, { sandbox });
    const network = await netTo(t, w);
    network.rule(() => sleep(300, "pass" as const)); // a page that is quicker than the cloud
    const station = await running(t, network.url, shop, { eyes: "hand" });
    const { job_ref: ref, digital_link: link, serial } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "printed" && station.state().buffer_depth === 0);
    const { page } = await visit(t, station);
    await page.getByText("Scan this label").waitFor();
    await page.evaluate(`{
      globalThis.seen = new Set();
      const look = () => seen.add(document.querySelector(".outcome, .frame")?.className);
      new MutationObserver(look).observe(document.body, { childList: true, subtree: true, attributes: true });
    }`);
    if (sandbox) await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial });
    await shows(page, ["bad", says], () => wedge(page, link));
    expect(await page.evaluate<string[]>("[...seen].filter((name) => /good/.test(name))")).toEqual([]);
    await outcome(page, "bad").click();
    if (sandbox) await page.getByText("Destroy the label.").waitFor();
    await shows(page, ["warn", "This label wasn't sealed here"], () => wedge(page, link));
  });

  test("a label that was told to be verified while the cloud was away is red once the cloud has refused it", async (t) => {
    const { shop, net: network, station } = await lineBehindNet(t, w, { eyes: "hand" });
    const { job_ref: ref, digital_link: link, serial } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "printed" && station.state().buffer_depth === 0);
    const { page } = await visit(t, station);
    network.cut();
    await page.locator(".banner.offline").waitFor();
    await shows(page, ["good", "Verified here"], () => wedge(page, link));
    await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial });
    network.mend();
    await outcome(page, "bad").waitFor();
    expect(await outcome(page, "bad").innerText()).toContain(serial);
    await page.getByText("Destroy the label.").waitFor();
    const next = await shop.issue();
    await until(() => jobAt(station, next.job_ref)?.stage === "printed");
    await Promise.all([page.waitForResponse("**/api/operator"), wedge(page, "a badge of nobody's")]); // in between, which would take it away as well
    await wedge(page, next.digital_link);
    await sealed(shop, next.job_ref);
    await until(() => station.state().recent[0]?.ended === "sealed");
    await page.waitForTimeout(500); // it has been told
    expect(await outcome(page, "bad").innerText()).toContain(serial); // what became of another takes it from nobody's eyes
    await dismissed(page, "bad");
  });

  test("a page that has lost its station says so, and offers nothing that it couldn't do", async (t) => {
    const { station } = await lineOf(t, w, HAND);
    station.store.label("printer", "unexplained", "its counter went from 7 to 8 without a job");
    const { page } = await visit(t, station, {}, "#upkeep");
    await wedge(page, OPERATOR.badge);
    await button(page, "Print a test label").click();
    await button(page, "Yes, so it is").click({ trial: true });
    await station.end();
    await page.getByText("This page has lost the station").waitFor();
    expect(await page.locator(".head").innerText()).toContain("Station away"); // further down the page nothing else says so
    expect(await button(page, "Yes, so it is").isDisabled()).toBe(true);
    await page.keyboard.press("Escape");
    await page.goto(`${station.url}/#line`);
    expect(await button(page, "Pause").isDisabled()).toBe(true);
    await shot(page, "lost");
    for (const [view, name] of [["labels", "Explain"], ["upkeep", "Print a test label"]] as const) {
      await page.locator(`nav a[href="#${view}"]`).click();
      expect([view, await button(page, name).isDisabled()]).toEqual([view, true]);
    } // oxfmt-ignore
  });

  test("a line that goes silent without closing is told as lost, and the page is live again once it is mended", async (t) => {
    const station = await running(t, w.url, await printShop(w), HAND);
    const line = await startProxy(() => ({ port: Number(new URL(station.url).port) }));
    t.onTestFinished(line.end);
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    t.onTestFinished(() => closeContext(context));
    await page.clock.install();
    await page.goto(`http://127.0.0.1:${line.port}/`);
    await page.locator(".side").waitFor();
    line.afflict({ kind: "black-hole" });
    await page.clock.fastForward(2 * BEAT_MS);
    await page.getByText("This page has lost the station").waitFor();
    line.heal();
    await expect.poll(() => page.getByText("This page has lost the station").count()).toBe(0);
  });

  test("the page survives its station's restart: it says that it has lost it, comes back by itself, and asks again who is there", async (t) => {
    const { shop, station: first } = await lineOf(t, w, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(first, ref, "attest");
    const { page } = await visit(t, first);
    await wedge(page, OPERATOR.badge);
    await page.getByText("Ada says:").waitFor();
    await first.end();
    await page.getByText("This page has lost the station").waitFor();
    first.floor.config.console.port = Number(new URL(first.url).port);
    const again = await stationOn(t, first.floor);
    await page.getByText("This page has lost the station").waitFor({ state: "detached" });
    await isAsked(again, ref, "attest");
    await button(page, "Label is out and good").click(); // the session of before is over
    await page.getByRole("heading", { name: "Scan your badge" }).waitFor();
    const { serial } = (await shop.admin.get(`/aidc/jobs/${ref}`)).body;
    await page.locator("dialog", { hasText: `Label is out and good${serial}` }).waitFor(); // whoever comes knows what they say
    await wedge(page, OPERATOR.badge);
    await page.getByText("Scan this label").waitFor(); // what was pressed counts
    await expect.poll(() => stateInCloud(shop, ref)).toBe("PRINTED_ATTESTED");
  });

  test("what was pressed before anybody was signed in is no word of whoever shows a badge a minute later", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref, serial } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station);
    await page.clock.install();
    await button(page, "Label is out and good").click();
    const pressed = page.locator("dialog", { hasText: `Label is out and good${serial}` });
    await pressed.waitFor();
    await page.clock.fastForward(60_000);
    await pressed.waitFor({ state: "detached" });
    await page.locator("dialog .pad").waitFor();
    await wedge(page, OPERATOR.badge);
    await page.getByText("Ada says:").waitFor();
    await button(page, "Label is out and good").click({ trial: true });
    expect(asked(station, ref)).toBe("attest");
  });

  test("a page left open over an upgrade says so, keeps what is typed and asked, and loads itself anew once nobody needs it", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref, digital_link: link } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station);
    await page.clock.install();
    await page.route("**/console.js", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: `${await response.text()}// another`, headers: { "content-type": "text/javascript" } });
    });
    await page.evaluate("globalThis.isOfBefore = true");
    const isOfBefore = () => page.evaluate<boolean>("globalThis.isOfBefore === true");
    const later = async () => {
      await page.clock.fastForward(12 * 60_000);
      await page.waitForTimeout(1_000);
    };
    const said = page.locator(".banner", { hasText: "The station was updated." });
    await lookedAtAgain(page);
    await said.waitFor();
    await later();
    expect(await isOfBefore()).toBe(true); // it asks a question
    await shot(page, "updated");
    await wedge(page, OPERATOR.badge);
    await button(page, "Label is out and good").click();
    await until(() => jobAt(station, ref)?.stage === "printed");
    await wedge(page, link);
    await sealed(shop, ref);
    await page.getByText("No label in hand").waitFor();
    await page.locator(".operator").click();
    await later();
    expect(await isOfBefore()).toBe(true); // whatever stands over it
    await expect.poll(async () => (await page.keyboard.press("Escape"), page.locator("dialog").count())).toBe(0); // a result that came late goes first
    await expect.poll(async () => (await later(), isOfBefore())).toBe(false);
    await page.locator(".side").waitFor();
    expect(await said.count()).toBe(0);
  });

  test("of an older page that is needed a person says when it loads anew, and no tap that was meant for something else does", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    for (const locale of LANGUAGES) {
      const { page } = await visit(t, station, { locale, bypassCSP: true });
      await page.clock.install();
      await page.route("**/console.js", (route) => route.fulfill({ body: "// another", contentType: "text/javascript" }), { times: 2 });
      await lookedAtAgain(page);
      const now = page.locator(".banner button");
      await now.waitFor();
      await page.clock.pauseAt((await page.evaluate<number>("Date.now()")) + LEAP_MS);
      await page.clock.resume();
      await now.click({ trial: true });
      await shot(page, `updated-${locale}`);
      expect([locale, await axeSays(page)]).toEqual([locale, []]);
      expect([locale, await unseen(page), await overflow(page), await cutTexts(page)]).toEqual([locale, [], 0, []]);
      if (locale !== "en") expect(await englishOn(page)).toEqual([]);
      await page.evaluate("globalThis.isOfBefore = true");
      await now.click();
      await expect.poll(() => page.evaluate("globalThis.isOfBefore === true").catch(() => true)).toBe(false);
      await page.locator(".question").waitFor();
    }
  });

  test("two consoles of one station are both live; of two answers one counts, and the other is told", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const [one, two] = [(await visit(t, station)).page, (await visit(t, station)).page];
    for (const page of [one, two]) await wedge(page, OPERATOR.badge);
    await button(two, /^Misprint/).click();
    await button(two, "Yes, so it is").waitFor();
    await button(one, "Label is out and good").click();
    await one.getByText("Scan this label").waitFor();
    await two.getByText("Scan this label").waitFor(); // behind the question that stands over it
    await shows(two, ["warn", "Not now"], () => button(two, "Yes, so it is").click());
    expect(jobAt(station, ref)?.state).toBe("PRINTED_ATTESTED");
    const { job_ref: next } = await shop.issue();
    await button(one, /^Reprint/).click();
    await button(one, "Yes, so it is").click();
    await isAsked(station, next, "attest");
    // In the same instant, past what a page can know.
    const answers = await Promise.all([say(station, next, "good"), say(station, next, "not_printed")]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 409]));
  });

  /** Two printers, of whose labels the same is asked; somebody is signed in. */
  async function askedTwice(t: Ends, more: Partial<Running["floor"]["config"]> = {}) {
    const shop = await printShop(w);
    const second = await startZplPrinter({ scale: 0 });
    t.onTestFinished(() => second.stop());
    const floor = await floorOf(t, w.url, shop, { ...HAND, settings: more });
    const [printer] = floor.config.printers;
    if (printer) floor.config.printers.push({ ...printer, name: "second", port: second.url });
    const station = await stationOn(t, floor);
    const refs = [(await shop.issue()).job_ref, (await shop.issue()).job_ref];
    const open = () => refs.filter((ref) => asked(station, ref) === "attest");
    await until(() => open().length === 2);
    const { page } = await visit(t, station);
    await wedge(page, OPERATOR.badge);
    await page.getByText("Ada says:").waitFor();
    await page.locator(".frame").waitFor({ state: "detached" });
    const inHand = async () => {
      const serial = await page.locator(".hero dl:first-child .code").innerText();
      return station.state().jobs.find((job) => job.serial === serial)?.job_ref ?? "";
    };
    return { station, page, refs, open, inHand };
  }

  test("a second tap answers nothing that came up under it: the next label's question, or whether one is sure", async (t) => {
    const { station, page, refs, open } = await askedTwice(t);
    const yes = await centre(button(page, "Label is out and good"));
    await inThatMoment(page, async () => {
      await page.mouse.click(...yes);
      await until(() => refs.some((ref) => jobAt(station, ref)?.stage === "printed"));
      await page.locator(".headline", { hasText: "Is the label out" }).waitFor(); // of the other one, in the same place
      await page.mouse.click(...yes);
    });
    await button(page, "Label is out and good").click({ trial: true });
    expect(open()).toHaveLength(1);
    await button(page, "Nothing came out").click();
    expect(await button(page, "Yes, so it is").isDisabled()).toBe(true);
    await button(page, "Yes, so it is").click();
    await until(() => open().length === 0);
  });

  test("a press that began on one label's question is no answer to the next one's, however long it lasts", async (t) => {
    const { station, page, open, inHand } = await askedTwice(t);
    const [x, y] = await centre(button(page, "Label is out and good"));
    const first = await inHand();
    await inThatMoment(page, async () => {
      await page.mouse.move(x, y);
      await page.mouse.down();
      await say(station, first, "good"); // at another page
      await expect.poll(inHand).not.toBe(first);
      await page.clock.runFor(5_000);
      await page.mouse.up();
    });
    await button(page, "Label is out and good").click({ trial: true });
    expect(open()).toHaveLength(1);
    await button(page, "Label is out and good").click();
    await until(() => open().length === 0);
  });

  test("the space bar, held down from one label's question to the next one's, is no answer to that either", async (t) => {
    const { station, page, open, inHand } = await askedTwice(t);
    const good = button(page, "Label is out and good");
    const first = await inHand();
    await centre(good);
    await good.focus();
    await inThatMoment(page, async () => {
      await page.keyboard.down("Space");
      await say(station, first, "good"); // at another page
      await expect.poll(inHand).not.toBe(first);
      await page.clock.runFor(5_000);
      await page.keyboard.up("Space");
    });
    await good.click({ trial: true });
    expect(open()).toHaveLength(1);
    await page.keyboard.press("Space");
    await until(() => open().length === 0);
  });

  test("a press that presses no button, or whose end nobody hears of, keeps no answer from being given to what is asked next", async (t) => {
    const other = { id: "op-8", name: "Ben", badge: "B-0008" };
    const { station, page, open, inHand } = await askedTwice(t, { operators: [OPERATOR, other] });
    const first = await inHand();
    const good = button(page, "Label is out and good");
    const [x, y] = await centre(good);
    const pointer = await page.context().newCDPSession(page);
    const does = (type: "mousePressed" | "mouseMoved", button: "left" | "right" | "none", buttons: number, at = { x, y }) =>
      pointer.send("Input.dispatchMouseEvent", { type, button, buttons, clickCount: 1, ...at });
    await does("mousePressed", "left", 1);
    await does("mouseMoved", "none", 0); // it was let go over a dialog of the system's
    await say(station, first, "good"); // at another page
    await expect.poll(inHand).not.toBe(first);
    await expect.poll(() => good.isDisabled()).toBe(false);
    await does("mousePressed", "right", 2); // a menu takes its end
    await wedge(page, other.badge);
    await page.getByText("Ben says:").waitFor();
    await expect.poll(() => good.isDisabled()).toBe(false);
    const [left, top] = await centre(page.locator(".hero"));
    await does("mousePressed", "left", 1, { x: left, y: top }); // as of a list that opens, which takes its end
    await wedge(page, OPERATOR.badge);
    await page.getByText("Ada says:").waitFor();
    await expect.poll(() => good.isDisabled()).toBe(false);
    await good.focus();
    await page.keyboard.press("Enter");
    await until(() => open().length === 0);
  });

  test("a tap that was meant in one operator's name isn't another's word, whose badge was scanned that moment", async (t) => {
    const other = { id: "op-8", name: "Ben", badge: "B-0008" };
    const { page, open } = await askedTwice(t, { operators: [OPERATOR, other] });
    const yes = await centre(button(page, "Label is out and good"));
    await inThatMoment(page, async () => {
      await wedge(page, other.badge);
      await page.getByText("Ben says:").waitFor();
      await page.mouse.click(...yes);
    });
    await button(page, "Label is out and good").click({ trial: true });
    expect(open()).toHaveLength(2);
  });

  test("the Enter of a scanner that hesitates before it answers nothing, nor does a space within what it types", async (t) => {
    const { page, open } = await askedTwice(t);
    await button(page, "Label is out and good").click();
    await until(() => open().length === 1);
    await button(page, "Label is out and good").click({ trial: true }); // of the next label, and it has the focus
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Label is out and good");
    await wedge(page, "https://id.example.com/01/04006381333931/21/1", ["Enter"], 300);
    await wedge(page, "CARTON", ["Space"], 300);
    await shows(page, ["bad", "Unknown code"], () => wedge(page, "B-9999"));
    expect(open()).toHaveLength(1);
  });

  test("who listens to the page is told of which label it is asked, also where the same is asked of the next one", async (t) => {
    const { station, page, inHand } = await askedTwice(t);
    const told = page.locator(".question [role=status]");
    for (const which of ["one", "the other"]) {
      const ref = await inHand();
      const question = `Is the label out, and good? Serial number ${jobAt(station, ref)?.serial}`;
      expect([which, await told.textContent()]).toEqual([which, question]);
      await say(station, ref, "good");
      await expect.poll(inHand).not.toBe(ref);
    }
  });

  test("what is said of a label of which nothing is asked answers no question that comes up on its way", async (t) => {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    const { job_ref: ref } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "printed");
    const { page } = await visit(t, station);
    await wedge(page, OPERATOR.badge);
    await page.getByText("Ada says:").waitFor();
    await page.route("**/attest", async (route) => {
      station.store.change(jobAt(station, ref)?.attempt_id ?? "", { work: { otherSeenAt: new Date().toISOString() } }); // an old label, under a camera
      await route.continue();
    });
    await button(page, /^Reprint/).click();
    await shows(page, ["warn", "Not now"], () => button(page, "Yes, so it is").click());
    expect(asked(station, ref)).toBe("destroy_earlier");
  });

  test("a label that is asked about later doesn't take the place of the one in hand; among others that wait, one that moved isn't tapped", async (t) => {
    const shop = await printShop(w);
    const second = await startZplPrinter({ scale: 0 });
    t.onTestFinished(() => second.stop());
    second.fault("paper-out");
    const floor = await floorOf(t, w.url, shop, HAND);
    const [printer] = floor.config.printers;
    if (printer) floor.config.printers.push({ ...printer, name: "second", port: second.url });
    const station = await stationOn(t, floor, { timing: { ...HASTY, completionMs: 10_000 } });
    await until(() => station.state().printers[1]?.status === "blocked");
    floor.machine?.fault("fence-never");
    const older = await shop.issue();
    await until(() => jobAt(station, older.job_ref)?.stage === "sent");
    const newer = await shop.issue();
    second.clear();
    await isAsked(station, newer.job_ref, "attest");
    const { page } = await visit(t, station);
    const inHand = () => page.locator(".hero dl:first-child .code").innerText();
    expect(await inHand()).toBe(newer.serial);
    await until(() => asked(station, older.job_ref) !== null);
    const other = page.locator(".others button", { hasText: older.serial });
    await other.filter({ hasText: "asks you" }).waitFor();
    expect(await inHand()).toBe(newer.serial);
    await other.click();
    await expect.poll(inHand).toBe(older.serial);
    await page.locator('nav a[href="#labels"]').click();
    await page.locator(".labels .rows li", { hasText: newer.serial }).locator("a").click();
    expect(await inHand()).toBe(newer.serial); // the one that was looked for
  });

  test("what goes below a question brings none of its answers under a finger that was meant for it, wherever one has scrolled to", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    await isAsked(station, (await shop.issue()).job_ref, "attest");
    for (const viewport of [PHONE, { width: 915, height: 412 }]) {
      const { page } = await visit(t, station, { viewport });
      const tell = await toldBy(page);
      const now = station.state();
      const open = ["1", "2", "3"].map((n) => ({ ...now.jobs[0], attempt_id: n }));
      await tell({ ...now, jobs: open });
      await page.locator(".others button").nth(1).waitFor();
      await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)");
      await page.locator(".others button").last().scrollIntoViewIfNeeded();
      const place = async () => (await page.locator(".question .answers").boundingBox())?.y;
      const before = await place();
      await tell({ ...now, jobs: open.slice(0, 1) });
      await page.locator(".others").waitFor({ state: "detached" });
      expect([viewport, await place()]).toEqual([viewport, before]);
    }
  });

  test("a page that was scrolled down a long list ends where one sees once the list is gone, and at its top is no longer than it has to be", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    await isAsked(station, (await shop.issue()).job_ref, "attest");
    const { page } = await visit(t, station, { viewport: PHONE });
    const tell = await toldBy(page);
    const now = station.state();
    const height = () => page.evaluate<number>("document.querySelector('main').getBoundingClientRect().bottom + scrollY");
    await tell(now);
    await button(page, "Label is out and good").click({ trial: true });
    const short = await height();
    await tell({ ...now, jobs: Array.from({ length: 50 }, (_, n) => ({ ...now.jobs[0], attempt_id: String(n) })) });
    await page.locator(".others button").nth(48).waitFor();
    await page.evaluate("scrollTo(0, 800)");
    for (const scrolled of [800, 20]) {
      await page.evaluate(`scrollTo(0, ${scrolled})`);
      await tell(now);
      await expect.poll(height).toBeLessThanOrEqual(Math.max(short, scrolled + PHONE.height));
      expect(await page.evaluate("scrollY")).toBe(scrolled);
    }
    await page.evaluate("scrollTo(0, 0)");
    await tell(now);
    await expect.poll(height).toBe(short);
  });

  test("a label that is asked about once more stays in hand; another that asks can be picked though labels pass by without a pause", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const state = station.state();
    const [job] = state.jobs;
    if (!job?.ask) throw new Error("nothing is asked");
    const { page } = await visit(t, station);
    const tell = await toldBy(page);
    const one = (serial: string, s: number, kind?: string) => ({
      ...job,
      attempt_id: serial,
      serial,
      stage: "sent",
      ask: kind === undefined ? null : { ...job.ask, kind, since: new Date(s * 1_000).toISOString() },
    });
    const inHand = () => page.locator(".hero dl:first-child .code").innerText();
    await tell({ ...state, jobs: [one("K1", 1, "destroy_void"), one("K2", 2, "attest")] });
    await expect.poll(inHand).toBe("K1");
    await tell({ ...state, jobs: [one("K1", 3, "attest"), one("K2", 2, "attest")] });
    await page.getByText("Is the label out, and good?").waitFor();
    expect(await inHand()).toBe("K1");
    await page.evaluate(`(() => {
      const [state, passing] = ${JSON.stringify([{ ...state, jobs: [one("K1", 3, "attest"), one("K2", 2, "attest")] }, one("", 0)])};
      let n = 0;
      setInterval(() => globalThis.tell({ ...state, jobs: [...state.jobs, { ...passing, attempt_id: "P" + ++n, serial: "P" + n }] }), 300);
    })()`);
    await page.locator(".others button", { hasText: "K2" }).click({ timeout: 5_000 });
    await expect.poll(inHand).toBe("K2");
  });

  test("a second tap, or Enter, on what fills the screen answers nothing that lies below it", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station);
    await wedge(page, OPERATOR.badge);
    await page.locator(".frame").waitFor();
    await page.locator(".frame").waitFor({ state: "detached" });
    const good = button(page, "Label is out and good");
    const there = await centre(good);
    await shows(page, ["bad", "Unknown code"], () => wedge(page, "B-9999"));
    await tapTwice(page, there);
    await outcome(page, "bad").waitFor({ state: "detached" });
    await good.focus();
    await shows(page, ["bad", "Unknown code"], () => wedge(page, "B-9999"));
    await inThatMoment(page, async () => {
      await page.keyboard.press("Enter");
      await outcome(page, "bad").waitFor({ state: "detached" });
      await page.keyboard.press("Enter"); // as a key that is held down does
    });
    await inThatMoment(page, async () => {
      await shows(page, ["bad", "Unknown code"], () => wedge(page, "B-9999"));
      await page.mouse.click(...there); // in its first moment: what runs a frame later hasn't run yet
      await page.locator(".shield").waitFor({ timeout: 5_000 });
      await page.mouse.click(...there);
    });
    await outcome(page, "bad").waitFor({ state: "detached" });
    await page.locator(".operator").click();
    await page.getByRole("heading", { name: "Signed in: Ada" }).waitFor();
    await tapTwice(page, await centre(button(page, "Back"))); // whatever lies below
    await good.click({ trial: true });
    expect(asked(station, ref)).toBe("attest");
    await good.click();
    await until(() => jobAt(station, ref)?.stage === "printed");
  });

  test("two taps on Pause pause, two on Seen to see to one, and none explains what nobody has read", async (t) => {
    const { station } = await lineOf(t, w, HAND);
    station.store.label("printer", "unexplained", "its counter went from 7 to 8 without a job");
    for (const code of ["EVIDENCE_INVALID", "SCAN_MISMATCH"])
      station.store.quarantine({ jobRef: "pj_1", attemptId: null, code, message: "refused", what: "{}" });
    const { page } = await visit(t, station);
    const twice = async (name: string) => tapTwice(page, await centre(button(page, name).first()));
    await twice("Pause");
    await button(page, "Resume").click({ trial: true });
    expect(station.state().paused).toBe(true);
    await page.setViewportSize(PHONE);
    await page.goto(`${station.url}/#labels`);
    await wedge(page, OPERATOR.badge);
    await page.locator(".frame").waitFor();
    await page.locator(".frame").waitFor({ state: "detached" });
    await twice("Seen to");
    await until(() => station.state().quarantine.length < 2);
    await expect.poll(() => button(page, "Seen to").count()).toBe(1);
    expect(station.state().quarantine).toHaveLength(1);
    await button(page, "Explain").click();
    expect(await button(page, "Found and destroyed").isDisabled()).toBe(true);
  });

  test("labels that come and go neither move Seen to nor keep it from being tapped", async (t) => {
    const station = await running(t, w.url, await printShop(w), HAND);
    for (const jobRef of ["pj_1", "pj_2"])
      station.store.quarantine({ jobRef, attemptId: null, code: "SCAN_MISMATCH", message: "refused", what: "{}" });
    station.store.label("printer", "unexplained", "its counter went from 7 to 8 without a job");
    const { page } = await visit(t, station, {}, "#labels");
    const tell = await toldBy(page);
    const now = station.state();
    await tell(now);
    const seenTo = button(page, "Seen to").last();
    await seenTo.click({ trial: true });
    const { y } = (await seenTo.boundingBox()) ?? {};
    for (const open of [[], now.ledger.open]) {
      await tell({ ...now, ledger: { ...now.ledger, open } });
      await expect.poll(() => button(page, "Explain").count()).toBe(open.length);
      expect([(await seenTo.boundingBox())?.y, await seenTo.isDisabled()]).toEqual([y, false]);
    }
  });

  test("a badge that is scanned twice leaves what is asked of its owner; somebody else's takes it away", async (t) => {
    const shop = await printShop(w);
    const operators = [OPERATOR, { id: "op-8", name: "Bea", badge: "B-0008" }];
    const station = await running(t, w.url, shop, { ...HAND, settings: { operators } });
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station);
    await button(page, /^Misprint/).click();
    for (let i = 0; i < 2; i += 1) await wedge(page, OPERATOR.badge);
    await page.locator(".frame", { hasText: "Ada" }).waitFor();
    await page.locator("dialog", { hasText: "Ada says:" }).waitFor();
    await wedge(page, "B-0008");
    await page.locator(".frame", { hasText: "Bea" }).waitFor();
    expect(await page.locator("dialog").count()).toBe(0);
  });

  test("zoomed to 400 %, nothing stands over what is asked; in colours of the reader's own, red still has its shape", async (t) => {
    const shop = await printShop(w, { product: "غلاية 1.7 (XL)" });
    const station = await running(t, w.url, shop, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station, { viewport: ZOOMED, forcedColors: "active" });
    await page.getByText("غلاية").waitFor();
    expect(await page.evaluate(`getComputedStyle(document.querySelector("dd bdi")).direction`)).toBe("rtl"); // its parenthesis comes last
    const isWhole = await page.evaluate(`(() => {
      const one = document.querySelector(".question .big");
      one.scrollIntoView({ block: "center" });
      const { left, right, top, bottom } = one.getBoundingClientRect();
      const corners = [left + 12, right - 12].flatMap((x) => [top + 12, bottom - 12].map((y) => [x, y]));
      return corners.every(([x, y]) => one.contains(document.elementFromPoint(x, y)));
    })()`);
    expect(isWhole).toBe(true);
    const colour = (which: string, of: string) => page.evaluate(`getComputedStyle(document.querySelector(${JSON.stringify(which)})).${of}`);
    expect(await colour(".tab[aria-current]", "borderBottomColor")).not.toBe(await colour(".tab:not([aria-current])", "borderBottomColor"));
    await shows(page, ["bad", "Unknown code"], () => wedge(page, "B-9999"));
    expect(await colour(".outcome", "backgroundColor")).not.toBe(await colour(".outcome .outline", "fill"));
    const { y: top = -1 } = (await page.locator(".outcome .shape").boundingBox()) ?? {};
    const { y = 0, height = 1e6 } = (await page.locator(".outcome > small").boundingBox()) ?? {};
    expect([top >= 0, y + height <= 256]).toEqual([true, true]); // all of it is seen
    await shot(page, "zoomed");
  });

  test("by keyboard, what has the focus is in view: nothing stands over it on a phone, a small panel and where text is large", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    for (let n = 0; n < 12; n += 1) station.store.label("printer", "unexplained", "its counter went from 7 to 8 without a job");
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    for (const viewport of [PHONE, SMALL_PANEL, { width: 640, height: 512 }])
      for (const view of ["line", "labels", "upkeep"]) {
        const { page, context } = await visit(t, station, { viewport }, `#${view}`);
        const hidden: string[] = [];
        for (const key of ["Tab", "Shift+Tab"])
          for (let i = 0; i < 30; i += 1) {
            await page.keyboard.press(key);
            const under = await page.evaluate<string | null>(`(() => {
              const one = document.activeElement;
              if (one === document.body || one.matches(".log")) return null;
              const { left, right, top, bottom } = one.getBoundingClientRect();
              const isSeen = [top + 3, (top + bottom) / 2, bottom - 3].every((y) => one.contains(document.elementFromPoint((left + right) / 2, y)));
              return isSeen ? null : one.textContent;
            })()`);
            if (under !== null) hidden.push(under);
          }
        expect([viewport.width, view, hidden]).toEqual([viewport.width, view, []]);
        await closeContext(context);
      }
  });

  test("another product's label is red and says so; a product's name is text, whatever it is", async (t) => {
    const name = `<img src=x onerror="alert(1)"> & <b>Kettle</b>`;
    const shop = await printShop(w, { product: name });
    const station = await running(t, w.url, shop, { eyes: "hand" });
    const { job_ref: ref, digital_link: link, gtin } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    const { page } = await visit(t, station);
    await page.getByText(name, { exact: true }).waitFor();
    expect(await page.locator("img[src=x], .hero dd b").count()).toBe(0);
    await shows(page, ["bad", /Wrong label[^]*another product/], () => wedge(page, link.replace(gtin, "04006381333931")));
    expect(jobAt(station, ref)?.state).toBe("PRINTED_ATTESTED");
  });

  test("a page of another origin can do nothing here, nor read a word", async (t) => {
    const { station } = await lineOf(t, w, HAND);
    const elsewhere = createServer((_request, response) => response.setHeader("content-type", "text/html").end("<h1>elsewhere</h1>"));
    const port = await listening(elsewhere);
    t.onTestFinished(() => void elsewhere.close());
    const context = await browser.newContext();
    t.onTestFinished(() => closeContext(context));
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${port}/`);
    const tried = await page.evaluate<string[]>(`Promise.all([
      ["POST", "/api/pause", {}], ["POST", "/api/pause", { mode: "no-cors" }], ["GET", "/api/state", {}],
    ].map(([method, path, how]) => fetch(${JSON.stringify(station.url)} + path, { method, ...how }).then(({ type }) => type, () => "refused")))`);
    expect(tried).toEqual(["refused", "opaque", "refused"]);
    expect(station.state().paused).toBe(false);
    const form = await page.request.post(`${station.url}/api/pause`, { headers: { origin: "null" } });
    expect([form.status(), station.state().paused]).toEqual([403, false]);
  });

  test("an orphan is destroyed here, and told to the cloud", async (t) => {
    const shop = await printShop(w);
    const network = await netTo(t, w);
    network.rule(({ body }) => (body.includes("PRINTED_ATTESTED") ? { status: 409, code: "STALE_ATTEMPT" } : "pass")); // somebody else has the job
    const station = await running(t, network.url, shop, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    await say(station, ref, "good");
    await until(() => jobAt(station, ref)?.stage === "orphan");
    const { page } = await visit(t, station);
    await page.getByText("Destroy the label.").waitFor();
    await page.getByText("It says neither TRY nor REPRINT.").waitFor();
    await page.locator(`img[src$="label.png?attempt_id=${jobAt(station, ref)?.attempt_id}"]`).waitFor();
    await shot(page, "orphan");
    await wedge(page, OPERATOR.badge);
    await button(page, "Orphan destroyed").click();
    await button(page, "Yes, so it is").click();
    await until(() => jobAt(station, ref) === undefined);
    const destroyed = async () => (await shop.admin.get("/aidc/orphans?disposition=destroyed")).body.data;
    await until(async () => (await destroyed()).length === 1);
    expect((await destroyed())[0].actor).toEqual({ kind: "operator", id: OPERATOR.id });
  });

  test("a PIN typed on the screen or on a keyboard signs in; a wrong one is told, and after five they wait", async (t) => {
    const { station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    const type = async (digits: string) => {
      for (const digit of digits) await button(page, digit).click();
      await button(page, "OK").click();
    };
    await button(page, "Sign in").click();
    await type("0000");
    await page.getByText("Nobody here has this PIN").waitFor();
    await page.context().setOffline(true);
    await type("0000");
    await page.getByText("The station doesn't answer").waitFor(); // in the page's words, not in the browser's
    await page.context().setOffline(false);
    for (const key of ["4", "7"]) {
      await page.keyboard.press(key);
      await sleep(100); // a person's keys, not a scanner's
    }
    await page.locator(".pin", { hasText: /^●●$/ }).waitFor();
    await page.keyboard.press("Backspace");
    await page.locator(".pin", { hasText: /^●$/ }).waitFor();
    await button(page, "Delete").click();
    await type(OPERATOR.pin);
    await page.locator(".operator", { hasText: "Ada" }).waitFor();
    await page.locator(".operator").click();
    await button(page, "Sign out").click();
    await button(page, "Sign in").click();
    for (const digit of OPERATOR.pin) {
      await page.keyboard.press(digit);
      await sleep(100);
    }
    await page.keyboard.press("Enter");
    await page.locator(".operator", { hasText: "Ada" }).waitFor();
    await page.locator(".operator").click();
    await button(page, "Sign out").click();
    await button(page, "Sign in").click();
    for (let i = 0; i < 5; i += 1) await type("9999");
    await page.getByText("Too many wrong PINs").waitFor();
    await type(OPERATOR.pin);
    await page.getByText("Too many wrong PINs").waitFor();
    await wedge(page, OPERATOR.badge); // a badge always can
    await page.locator(".operator", { hasText: "Ada" }).waitFor();
    expect(await page.locator("dialog").count()).toBe(0);
  });

  test("maintenance breaks a simulated printer and mends it, prints a test label that is explained, and the line shows what is wrong", async (t) => {
    const { station } = await lineOf(t, w, { eyes: "hand" });
    await until(() => station.state().printers[0]?.status === "ready");
    const { page } = await visit(t, station, {}, "#upkeep");
    await wedge(page, OPERATOR.badge);
    await button(page, "Print a test label").click();
    await button(page, "Yes, so it is").click();
    await page.getByText(/Test label: confirmed/).waitFor();
    expect(station.state().ledger).toMatchObject({ counts: { explained: 1 }, open: [] });
    station.store.label("printer", "unexplained", "its counter went from 7 to 8 without a job");
    let answer = () => {};
    await page.route("**/test", async (asked) => {
      await new Promise<void>((isTime) => (answer = isTime));
      await asked.continue();
    });
    await button(page, "Print a test label").click();
    await button(page, "Yes, so it is").click();
    await page.getByText(/Test label: confirmed/).waitFor({ state: "detached" }); // that was the one before
    await page.goto(`${station.url}/#labels`);
    expect(await button(page, "Explain").isDisabled()).toBe(true); // what is pressed meanwhile isn't dropped without a word
    answer();
    await button(page, "Explain").click({ trial: true });
    await page.goto(`${station.url}/#upkeep`);
    await page.getByText(/Test label: confirmed/).waitFor();
    await page.getByText("What this station can't detect").waitFor();
    const toSimulator = "**/simulator";
    await page.route(toSimulator, (asked) => asked.abort());
    await page.goto(`${station.url}/#labels`);
    const isAsked = page.waitForEvent("requestfailed");
    await page.goto(`${station.url}/#upkeep`);
    await isAsked;
    await button(page, /^no labels left/).click();
    await page.getByText("The station doesn't answer").waitFor();
    await page.unroute(toSimulator);
    await page.getByText("The station doesn't answer").click();
    await button(page, /^no labels left/).click();
    await page.locator(".fault[aria-pressed=true]").waitFor();
    await page.goto(`${station.url}/#line`);
    await page.locator(".device.is-bad", { hasText: "No labels left" }).waitFor();
    await shot(page, "paper-out");
    await page.goto(`${station.url}/#upkeep`);
    await button(page, /^no labels left/).click();
    await until(() => station.state().printers[0]?.status === "ready");
    await page.evaluate("scrollTo(0, 0)");
    await shot(page, "maintenance");
    expect(await page.locator(".fault[aria-pressed=true]").count()).toBe(0);
    station.floor.machine?.fault("head-open"); // by another page, or at its control port
    await page.locator(".fault[aria-pressed=true]", { hasText: "head-open" }).waitFor();
    station.floor.machine?.clear();
    await until(() => station.state().printers[0]?.status === "ready");
    await expect.poll(() => page.locator(".fault[aria-pressed=true]").count()).toBe(0);
    station.floor.machine?.fault("drift"); // nothing that the station would notice
    await page.locator(".fault[aria-pressed=true]", { hasText: "drift" }).waitFor();
  });

  test("what is broken, refused, lost and looked for is said in the operator's language, and what isn't ours is quoted", async (t) => {
    const { station } = await lineOf(t, w, { eyes: "hand" });
    await until(() => station.state().printers[0]?.status === "ready");
    const lies = (words: string) => station.store.label("printer", "unexplained", words);
    lies("its counter went from 7 to 8 without a job");
    lies("the queue refused the label: Toner almost empty: look for it, and explain it here");
    const refused = { code: "EVIDENCE_INVALID", message: "the evidence is of another attempt, and says nothing of this one" };
    station.store.quarantine({ jobRef: "pj_1", attemptId: null, what: "{}", ...refused });
    for (const locale of ["de", "es", "zh-Hans"]) {
      const { page } = await visit(t, station, { locale, bypassCSP: true }, "#upkeep");
      const look = async (name: string) => {
        await shot(page, `told-${name}-${locale}`, true);
        expect([locale, name, await englishOn(page)]).toEqual([locale, name, []]);
        expect([locale, name, await overflow(page), await cutTexts(page)]).toEqual([locale, name, 0, []]);
      };
      await wedge(page, OPERATOR.badge);
      await page.locator(".fault", { hasText: "head-open" }).click();
      await page.locator(".device.is-bad").waitFor();
      await look("broken");
      await page.locator(".panel > .answers button").first().click();
      await page.locator("dialog .answers button").last().click();
      await page.locator(".outcome.warn .reason").waitFor();
      await look("refused");
      await page.locator(".outcome").click();
      await page.locator(".fault", { hasText: "head-open" }).click();
      await until(() => station.state().printers[0]?.status === "ready");
      await page.evaluate("location.hash = 'labels'");
      await page.locator("main.labels .rows q").first().waitFor();
      expect(await page.locator("main.labels .rows q").allInnerTexts()).toEqual([refused.message, "Toner almost empty"]);
      expect(await page.locator("main.labels .rows q[lang=en]").innerText()).toBe(refused.message); // beside what its code says
      await look("ledger");
      await page.context().close();
    }
  });

  test("a label of which nobody knows, and a key that the cloud no longer takes, are told in the operator's language", async (t) => {
    const { shop, station } = await lineBehindNet(t, w, { eyes: "hand" });
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "unknown_outcome");
    await shop.admin.delete(`/api-keys/${shop.device.keyId}`);
    await until(() => station.state().stopped !== null);
    for (const locale of ["de", "es", "zh-Hans"]) {
      const { page } = await visit(t, station, { locale });
      await page.locator(".banner.bad").waitFor();
      await page.locator(".question .detail .theirs").first().waitFor();
      await shot(page, `stopped-${locale}`);
      expect([locale, await unseen(page)]).toEqual([locale, []]);
      expect([locale, await page.locator("q").allInnerTexts(), await englishOn(page)]).toEqual([locale, [], []]);
    }
  });

  test("of a job whose label was sealed, and which a cloud that was set back gives out again, it is told in the operator's language what to do", async (t) => {
    const { shop, station } = await lineOf(t, w);
    const { job_ref: ref } = await shop.issue();
    await sealedHere(station, ref);
    await setBack(w, ref);
    await isAsked(station, ref, "destroy_earlier");
    for (const locale of ["en", "de", "es", "zh-Hans"]) {
      const { page } = await visit(t, station, { locale });
      await page.locator(".question .detail .theirs").first().waitFor();
      await shot(page, `set-back-${locale}`);
      expect([locale, await unseen(page)]).toEqual([locale, []]);
      if (locale !== "en") expect([locale, await page.locator("q").allInnerTexts(), await englishOn(page)]).toEqual([locale, [], []]);
    }
  });

  test("who listens to the page is told that the station takes no jobs, or begins none, once each", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    await page.evaluate(`(() => {
      globalThis.told = [];
      const told = (changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(({ textContent }) => globalThis.told.push(textContent)));
      const regions = document.querySelectorAll(".banners [role=status]"); // those that are there before what they tell
      for (const region of regions) new MutationObserver(told).observe(region, { childList: true, subtree: true });
    })()`);
    await ask(station, "POST", "/api/pause", {});
    await page.getByText("Paused. Nothing new is begun.").first().waitFor();
    await shop.admin.delete(`/api-keys/${shop.device.keyId}`);
    await page.locator(".banner.bad").waitFor();
    await page.waitForTimeout(1_500); // time goes on
    expect(await page.evaluate("globalThis.told")).toEqual([
      "Paused. Nothing new is begun.",
      expect.stringContaining("No new jobs are taken:"),
    ]);
    const eyes = await page.context().newCDPSession(page);
    await eyes.send("Accessibility.enable");
    const { nodes } = await eyes.send("Accessibility.getFullAXTree");
    const told = nodes.find(
      ({ properties = [], role, childIds }) => role?.value === "status" && childIds?.length === 2 && properties.length > 0,
    );
    const how = Object.fromEntries((told?.properties ?? []).map(({ name, value }) => [name, value.value]));
    expect(how).toMatchObject({ live: "polite", atomic: false, relevant: "additions" }); // not all of it anew at each, nor as one's figures change
  });

  test("a station that takes no jobs doesn't say that the next one begins by itself", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { page } = await visit(t, station);
    await page.getByText("The next job begins by itself.").waitFor();
    await shop.admin.delete(`/api-keys/${shop.device.keyId}`);
    await page.locator(".banner.bad").waitFor();
    expect(await page.getByText("The next job begins by itself.").count()).toBe(0);
  });

  test("a tap that was meant for what stood there before a banner pushed it away answers nothing", async (t) => {
    const { shop, net: network, station } = await lineBehindNet(t, w, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page, requests } = await visit(t, station, { viewport: PHONE });
    await wedge(page, OPERATOR.badge);
    await page.locator(".frame").waitFor();
    await page.locator(".frame").waitFor({ state: "detached" });
    await page.evaluate("scrollTo(0, 0)");
    const there = await centre(button(page, /^Misprint/));
    const good = await centre(button(page, /^Label is out and good/));
    await page.clock.install();
    await page.clock.pauseAt((await page.evaluate<number>("Date.now()")) + LEAP_MS);
    network.cut();
    await page.locator(".banner.offline").waitFor();
    await page.mouse.click(...there);
    network.mend();
    await page.locator(".banner.offline").waitFor({ state: "detached" }); // nor what it lets come back
    await page.mouse.click(...good);
    await page.clock.resume();
    await page.waitForTimeout(300);
    expect(requests.filter((one) => one.endsWith("/attest"))).toEqual([]);
    await button(page, /^Label is out and good/).click(); // as soon as it has been read
    await expect.poll(() => requests.some((one) => one.endsWith("/attest"))).toBe(true);
  });

  test("a station of a long name leaves room for who is there, and for everything else at its head", async (t) => {
    for (const name of ["W".repeat(64), "生产线".repeat(21), "🏭".repeat(32)]) {
      const station = await running(t, w.url, await printShop(w), { ...HAND, settings: { station: name } });
      for (const viewport of [PANEL, PHONE]) {
        const { page } = await visit(t, station, { viewport });
        await shot(page, `long-name-${viewport.width}`);
        expect([name, viewport.width, await overflow(page)]).toEqual([name, viewport.width, 0]);
        for (const what of [".operator", ".language", ".sound"]) expect([name, what, await within(page, what)]).toEqual([name, what, true]);
      }
    }
  });

  test("a name that runs from the right and is too long begins where it is read", async (t) => {
    const name = "عبد الرحمن بن محمد بن عبد العزيز الطويل";
    const station = await running(t, w.url, await printShop(w), { ...HAND, settings: { operators: [{ ...OPERATOR, name }] } });
    for (const viewport of [PANEL, PHONE]) {
      const { page } = await visit(t, station, { viewport });
      await wedge(page, OPERATOR.badge);
      await page.locator(".operator.is-in").waitFor();
      const beginning = await page.evaluate<boolean>(`(() => {
        const [bdi, box] = [document.querySelector(".operator bdi"), document.querySelector(".operator strong").getBoundingClientRect()];
        const first = document.createRange();
        first.setStart(bdi.firstChild, 0);
        first.setEnd(bdi.firstChild, 1);
        const { left, right } = first.getBoundingClientRect();
        return left >= box.left && right <= box.right + 1;
      })()`);
      expect([viewport.width, beginning]).toEqual([viewport.width, true]);
    }
  });

  test("on a tablet, too, a station's name is read, and everything at its head is in view", async (t) => {
    const station = await running(t, w.url, await printShop(w), { ...HAND, settings: { station: "line-12" } });
    for (const locale of LANGUAGES) {
      const { page } = await visit(t, station, { locale });
      await wedge(page, OPERATOR.badge);
      await page.locator(".operator.is-in").waitFor();
      for (const width of [768, 800]) {
        await page.setViewportSize({ width, height: 600 });
        expect([locale, width, await overflow(page)]).toEqual([locale, width, 0]);
        const isCut = await page.locator(".name strong").evaluate((one) => one.scrollWidth > one.clientWidth);
        expect([locale, width, isCut]).toEqual([locale, width, false]);
      }
    }
  });

  test("on a tablet no word of how far a label is breaks within itself, whichever is the one in hand", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    for (const locale of LANGUAGES) {
      const { page } = await visit(t, station, { locale });
      await page.locator(".strip").waitFor();
      for (const width of [737, 768, 800, 930]) {
        await page.setViewportSize({ width, height: 1_024 });
        const broken = await page.evaluate<string[]>(`[...document.querySelectorAll(".strip li")].filter((one) => {
          const { className, parentElement } = one;
          for (const now of parentElement.querySelectorAll(".now")) now.className = "open";
          one.className = "now";
          const step = one.querySelector(".step");
          const word = document.createRange();
          word.selectNodeContents(step);
          const isWhole = word.getClientRects().length <= step.textContent.split(" ").length;
          one.className = className === "now" ? "open" : className;
          return !isWhole;
        }).map((one) => one.textContent)`);
        expect([locale, width, broken]).toEqual([locale, width, []]);
      }
    }
  });

  test("whatever banner stands over the page, what is asked is answered without scrolling, and whose label it is stays in view", async (t) => {
    const shop = await printShop(w, {
      product: "Wasserkocher Modell Küstennebel 1.7 mit Temperaturwahl und Warmhaltefunktion, gebürsteter Stahl",
    });
    const station = await running(t, w.url, shop, HAND);
    const { job_ref: ref } = await shop.issue();
    for (let i = 0; i < 2; i += 1) await shop.issue();
    await isAsked(station, ref, "attest");
    await ask(station, "POST", "/api/pause", {});
    await shop.admin.delete(`/api-keys/${shop.device.keyId}`);
    await until(() => station.state().stopped !== null);
    for (const locale of LANGUAGES) {
      const { page } = await visit(t, station, { locale });
      await wedge(page, OPERATOR.badge);
      await page.locator(".frame").waitFor();
      await page.locator(".frame").waitFor({ state: "detached" });
      expect(await page.locator(".banner.bad").count()).toBe(1);
      await page.locator(".paper img").evaluate((img) => (img as unknown as { decode(): Promise<void> }).decode());
      await shot(page, `banners-${locale}`);
      expect([locale, await unseen(page)]).toEqual([locale, []]);
    }
  });

  test("on a panel of 800 x 480, too, of which label something is asked, what, and the answers are in view, whatever banner stands above", async (t) => {
    const shop = await printShop(w, {
      product: "Wasserkocher Modell Küstennebel 1.7 mit Temperaturwahl, gebürsteter Stahl ".repeat(3).slice(0, 200),
    });
    const station = await running(t, w.url, shop, HAND);
    const { job_ref: ref } = await shop.issue();
    await isAsked(station, ref, "attest");
    const look = async (name: string) => {
      for (const locale of LANGUAGES) {
        const { page, context } = await visit(t, station, { viewport: SMALL_PANEL, locale, bypassCSP: true });
        await wedge(page, OPERATOR.badge);
        await page.locator(".frame").waitFor();
        await page.locator(".frame").waitFor({ state: "detached" });
        await page.locator(".paper img").evaluate((img) => (img as unknown as { decode(): Promise<void> }).decode());
        await page.route("**/console.js", (route) => route.fulfill({ body: "// another", contentType: "text/javascript" }));
        await lookedAtAgain(page);
        await page.locator(".banner.upgraded").waitFor({ state: "attached" });
        await shot(page, `small-${name}-${locale}`);
        expect([name, locale, await unseen(page)]).toEqual([name, locale, []]);
        expect([name, locale, await overflow(page), await cutTexts(page)]).toEqual([name, locale, 0, []]);
        expect([name, locale, await smallTargets(page, "button, a, select", TOUCH_PX)]).toEqual([name, locale, []]);
        await closeContext(context);
      }
    };
    await look("attest");
    await shop.admin.delete(`/api-keys/${shop.device.keyId}`);
    await ask(station, "POST", "/api/pause", {});
    await until(() => station.state().stopped !== null);
    await look("banners");
    await say(station, ref, "good");
    await until(() => jobAt(station, ref)?.stage === "printed");
    await look("scan");
  });

  test("a label of any proportions is seen whole, in its own, and how far it is and what is asked with it", async (t) => {
    for (const [widthMm, heightMm] of [
      [30, 100],
      [100, 150],
    ] as const) {
      const shop = await printShop(w);
      const station = await running(t, w.url, shop, { eyes: "hand", config: { attest: "operator", label: { widthMm, heightMm } } });
      await isAsked(station, (await shop.issue()).job_ref, "attest");
      for (const viewport of [PANEL, SMALL_PANEL, PHONE]) {
        const { page } = await visit(t, station, { viewport });
        const { x = 0, y = 0, width = 0, height = 0 } = (await page.locator(".paper").boundingBox()) ?? {};
        expect([widthMm, viewport, width / height]).toEqual([widthMm, viewport, expect.closeTo(widthMm / heightMm, 1)]);
        const boxes = [".strip", ".question"].map((what) => page.locator(what).boundingBox());
        const [strip, question] = await Promise.all(boxes);
        expect(x).toBeGreaterThanOrEqual(0);
        expect([widthMm, viewport, y + height <= (strip?.y ?? 0)]).toEqual([widthMm, viewport, true]);
        expect([widthMm, viewport, (strip?.y ?? 0) + (strip?.height ?? 0) <= (question?.y ?? 0)]).toEqual([widthMm, viewport, true]);
        expect((question?.y ?? 0) + (question?.height ?? 0)).toBeLessThanOrEqual(viewport.height);
      }
    }
  });

  test("what the station didn't do when it was asked here is told when it comes about elsewhere", async (t) => {
    const { shop, station } = await lineOf(t, w, HAND);
    const { job_ref: ref, serial } = await shop.issue();
    await isAsked(station, ref, "attest");
    const { page } = await visit(t, station);
    await wedge(page, OPERATOR.badge);
    const error = { code: "ILLEGAL_TRANSITION", message: "not now" };
    await page.route("**/attest", (route) => route.fulfill({ status: 409, json: { error } }), { times: 1 });
    await button(page, /^Misprint/).click();
    await shows(page, ["warn", "Not now"], () => button(page, "Yes, so it is").click());
    await dismissed(page, "warn");
    await shows(page, ["warn", serial as string], () => say(station, ref, "misprint"));
    expect(station.state().recent.find(({ job_ref }) => job_ref === ref)?.ended).toBe("failed");
  });

  test("the way back takes what stands over the page away with the view that it belonged to", async (t) => {
    const station = await running(t, w.url, await printShop(w), HAND);
    const { page } = await visit(t, station);
    await page.locator("nav a[href='#labels']").click();
    await page.locator("main.labels").waitFor();
    await page.locator(".operator").click();
    await page.locator("dialog .pad").waitFor();
    await page.goBack();
    await page.locator("main.line").waitFor();
    await expect.poll(() => page.locator("dialog").count()).toBe(0);
  });

  test("past midnight, what was yesterday's says its day in the operator's language, on a page that has stood since", async (t) => {
    let now = new Date().setHours(12, 0, 0, 0);
    const floor = await floorOf(t, w.url, await printShop(w), { eyes: "hand" });
    const station = await stationOn(t, floor, { clock: { ...systemClock, now: () => now } });
    station.store.label("printer", "unexplained", "its counter went from 7 to 8 without a job");
    station.store.quarantine({ jobRef: "pj_1", attemptId: null, code: "SCAN_MISMATCH", message: "refused", what: "{}" });
    const pages = await Promise.all(LANGUAGES.map(async (locale) => (await visit(t, station, { locale }, "#labels")).page));
    const times = (page: Page) => page.locator(".rows time").allInnerTexts();
    for (const page of pages) await expect.poll(() => times(page)).toEqual(["12:00:00", "12:00:00"]);
    const written = Object.fromEntries(
      LANGUAGES.map((locale) => [locale, new Intl.DateTimeFormat(locale, { dateStyle: "medium" }).format(now)]),
    );
    now += 13 * 3_600_000;
    await ask(station, "POST", "/api/pause", {});
    for (const [i, locale] of LANGUAGES.entries()) {
      const page = pages[i] as Page;
      await expect.poll(async () => (await times(page)).every((at) => at.includes(written[locale] ?? ""))).toBe(true);
      expect((await times(page)).join()).toContain("12:00:00");
      await shot(page, `yesterday-${locale}`);
      await page.setViewportSize(PHONE);
      expect([locale, await overflow(page), await cutTexts(page)]).toEqual([locale, 0, []]);
    }
  });

  test("the ledger: a label that nobody ordered is explained, what the cloud refused is seen to, a sealed label is printed anew", async (t) => {
    const { shop, station } = await lineOf(t, w, { printer: { scale: 0 } });
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    await until(() => station.state().recent.length === 1);
    station.store.label("printer", "unexplained", "its counter went from 7 to 8 without a job");
    const message = "the evidence is of another attempt, and says nothing of this one";
    station.store.quarantine({ jobRef: ref, attemptId: null, code: "EVIDENCE_INVALID", message, what: "{}" });
    const { page } = await visit(t, station, { bypassCSP: true });
    await page.locator(".tab", { hasText: /^Labels1$/ }).click(); // nobody at the line is asked about it
    await page.getByText("EVIDENCE_INVALID").waitFor();
    await shot(page, "ledger", true);
    expect(await axeSays(page)).toEqual([]);
    const of = (name: string) => button(page, name).getAttribute("aria-description"); // each row has a button of that name
    const { serial } = station.state().recent[0] ?? {};
    expect([await of("Seen to"), await of("Explain"), await of("Reprint")]).toEqual([ref, "printer", serial]);
    await button(page, "Seen to").click();
    await page.locator("dialog", { hasText: `Seen to${ref}` }).waitFor(); // whoever comes knows of what
    await wedge(page, OPERATOR.badge);
    await until(() => station.state().quarantine.length === 0);
    await page.getByText("EVIDENCE_INVALID").waitFor({ state: "detached" });
    await button(page, "Explain").click();
    await page.locator("dialog", { hasText: "its counter went from 7 to 8" }).waitFor(); // of which label
    await button(page, "Came out while loading or calibrating").click();
    await until(() => station.state().ledger.counts["explained"] === 1);
    const isOver = { status: 401, json: { error: { code: "UNAUTHENTICATED", message: "the session is over" } } };
    await page.route("**/reprint", (route) => route.fulfill(isOver), { times: 1 });
    await button(page, "Reprint").click();
    await button(page, "Yes, so it is").click();
    await page.locator("dialog", { hasText: `Reprint${station.state().recent[0]?.serial}` }).waitFor(); // whoever comes knows of which label
    await wedge(page, OPERATOR.badge);
    await until(async () => (await shop.admin.get("/aidc/jobs")).body.data.length === 2);
    const [again] = (await shop.admin.get("/aidc/jobs")).body.data;
    expect(again).toMatchObject({ reprint: true, serial: station.state().recent[0]?.serial });
  });

  describe("every view in every language", async () => {
    const shop = await printShop(w);
    let station: Running;
    const ends: (() => unknown)[] = [];
    beforeAll(async () => {
      station = await running({ onTestFinished: (end) => void ends.unshift(end) }, w.url, shop, HAND);
      const { job_ref: ref } = await shop.issue();
      for (let i = 0; i < 3; i += 1) await shop.issue();
      await isAsked(station, ref, "attest");
    });
    afterAll(async () => {
      for (const end of ends) await end();
    });
    const looks = LANGUAGES.flatMap((locale) =>
      (["line", "labels", "upkeep"] as const).flatMap((view) => [
        { locale, view, viewport: PANEL, on: "panel", colorScheme: "light" as const },
        { locale, view, viewport: PHONE, on: "phone", colorScheme: locale === "en" ? ("dark" as const) : ("light" as const) },
      ]),
    );
    test.for(looks)("$view in $locale on a $on: nothing for axe to find, nothing runs over, every target is large", async (look, t) => {
      const { locale, view, viewport, on, colorScheme } = look;
      const context = { viewport, locale, colorScheme, bypassCSP: true };
      const { page } = await visit(t, station, context, `#${view}`);
      await until(async () => (await page.getAttribute("html", "lang")) === locale);
      if (view === "upkeep") await page.locator(".faults").waitFor();
      if (view === "line") await page.locator(".paper img").evaluate((img) => (img as unknown as { decode(): Promise<void> }).decode());
      await shot(page, `${view}-${locale}-${on}`, view !== "line" || on === "phone");
      expect(await axeSays(page)).toEqual([]);
      expect([await overflow(page), await cutTexts(page), await smallTargets(page, "button, a, select", TOUCH_PX)]).toEqual([0, [], []]);
      if (locale !== "en") expect(await englishOn(page)).toEqual([]);
      if (view === "line" && on === "panel") {
        const answers = await page.locator(".question").boundingBox();
        expect((answers?.y ?? 0) + (answers?.height ?? 0)).toBeLessThanOrEqual(PANEL.height); // what is asked is answered without scrolling
      }
    });
    test.for(LANGUAGES)("in %s, whatever stands over the page: nothing for axe to find, nothing cut", async (locale, t) => {
      for (const [on, viewport] of Object.entries({ panel: PANEL, phone: PHONE })) {
        const { page } = await visit(t, station, { viewport, locale, bypassCSP: true });
        const look = async (name: string) => {
          await shot(page, `${name}-${locale}-${on}`);
          expect([name, await axeSays(page)]).toEqual([name, []]);
          expect([name, await overflow(page), await cutTexts(page)]).toEqual([name, 0, []]);
          expect([name, await smallTargets(page, "dialog button, .outcome", TOUCH_PX)]).toEqual([name, []]);
          if (locale !== "en") expect([name, await englishOn(page)]).toEqual([name, []]);
        };
        await page.locator(".question .answers .bad").first().click();
        await page.locator("dialog .pad").waitFor();
        await look("sign-in");
        await wedge(page, OPERATOR.badge);
        await page.locator("dialog .answers").waitFor();
        await look("confirm");
        await page.locator("dialog .answers button").first().click();
        await wedge(page, "https://id.example.com/01/04006381333931/21/1");
        await outcome(page, "bad").waitFor();
        await look("red");
        await outcome(page, "bad").click();
        await page.context().close();
      }
    });
    test.for(LANGUAGES)(
      "in %s, zoomed to 400 %, on the smallest phone and on a phone on its side nothing runs over, and every view is in reach",
      async (locale, t) => {
        const { page } = await visit(t, station, { locale });
        for (const view of ["line", "labels", "upkeep"]) {
          await page.locator(`a[href="#${view}"]`).click();
          await page.locator(`a[href="#${view}"][aria-current]`).waitFor();
          for (const viewport of [ZOOMED, { width: 320, height: 568 }, { width: 568, height: 320 }, { width: 915, height: 412 }]) {
            await page.setViewportSize(viewport);
            const tabs = await page.evaluate(
              `Math.max(0, ...[...document.querySelectorAll(".tab")].map((one) => one.getBoundingClientRect().right - innerWidth))`,
            );
            expect([view, viewport, await overflow(page), tabs]).toEqual([view, viewport, 0, 0]);
          }
        }
        await page.setViewportSize({ width: 320, height: 568 });
        await page.locator(".operator").click();
        await page.locator("dialog .pad").waitFor();
        const broken = `[...document.querySelectorAll(".pad strong")].filter((one) => one.offsetHeight > 1.5 * parseFloat(getComputedStyle(one).lineHeight)).map((one) => one.textContent)`;
        expect([locale, await page.evaluate(broken)]).toEqual([locale, []]);
      },
    );
    test("a language that was chosen stays chosen", async (t) => {
      const { page } = await visit(t, station);
      await page.getByLabel("Language").selectOption("de");
      await page.getByText("Kam das Etikett heraus, und ist es in Ordnung?").waitFor();
      await page.reload();
      await page.getByText("Kam das Etikett heraus, und ist es in Ordnung?").waitFor();
      expect(await page.getAttribute("html", "lang")).toBe("de");
    });
    test.for(["refused", "nowhere"] as const)(
      "in a browser that keeps nothing (%s) it works, and forgets who was there with the page",
      async (how, t) => {
        const { page } = await visit(t, station);
        await keepsNothing(page, how);
        await page.reload();
        await wedge(page, OPERATOR.badge);
        await page.locator(".operator.is-in").waitFor();
        await page.getByLabel("Language").selectOption("de");
        await page.getByText("Kam das Etikett heraus, und ist es in Ordnung?").waitFor();
        await page.reload();
        await page.getByText("Is the label out, and good?").waitFor();
        expect(await page.locator(".operator.is-in").count()).toBe(0);
      },
    );
    test("sounds are muted by hand, and stay so", async (t) => {
      const { page } = await visit(t, station);
      await button(page, "Sound is on").click();
      await page.reload();
      expect(await button(page, "Sound is off").getAttribute("aria-pressed")).toBe("false");
    });
    test("in a browser that lets no page make sounds, results come and go all the same", async (t) => {
      const { page } = await visit(t, station);
      await page.addInitScript("delete globalThis.AudioContext");
      await page.reload();
      await page.locator(".side").waitFor();
      await wedge(page, OPERATOR.badge);
      await page.locator(".frame", { hasText: "Ada" }).waitFor();
      await page.locator(".frame").waitFor({ state: "detached" });
      expect(await page.evaluate("'AudioContext' in globalThis")).toBe(false);
    });
    test("who listens to the page is told what is asked, once, and not again each second how long it has been asked", async (t) => {
      const { page } = await visit(t, station);
      await page.clock.install();
      await page.evaluate(`{
        globalThis.told = [];
        const look = ([{ target }]) => told.push(target.textContent ?? "");
        for (const one of document.querySelectorAll("[role=status], [role=alert]"))
          new MutationObserver(look).observe(one, { characterData: true, childList: true, subtree: true });
      }`);
      const since = () => page.locator(".headline small").innerText();
      const before = await since();
      await page.clock.runFor(120_000);
      await expect.poll(since).not.toBe(before);
      expect(await page.evaluate("told")).toEqual([]);
    });
    test("what has the focus has it again once nothing lies over it, also where signing in came before the question whether one is sure", async (t) => {
      const { page } = await visit(t, station);
      const focused = () => page.evaluate('document.activeElement.closest("button")?.textContent ?? ""');
      for (const isIn of [false, true]) {
        await button(page, /^Misprint/).click({ trial: true });
        await button(page, /^Misprint/).focus();
        await page.keyboard.press("Enter");
        if (!isIn) {
          await page.locator("dialog .pad").waitFor();
          await wedge(page, OPERATOR.badge);
        }
        await page.locator("dialog .answers").waitFor();
        await page.keyboard.press("Escape");
        await expect.poll(focused).toContain("Misprint");
      }
    });
    test("a person's keys do what keys do: Tab moves, Enter and the space bar press", async (t) => {
      const { page } = await visit(t, station);
      await button(page, "Pause").click({ trial: true });
      await button(page, "Pause").focus();
      await page.keyboard.press("Enter");
      await button(page, "Resume").waitFor();
      await button(page, "Resume").click({ trial: true }); // it can be pressed
      expect(await page.evaluate("document.activeElement.textContent")).toBe("Resume"); // where one is, though it couldn't be pressed for a moment
      await page.keyboard.press(" ");
      await button(page, "Pause").waitFor();
      await button(page, "Sign in").focus();
      await page.keyboard.press("Tab");
      expect(await page.evaluate("document.activeElement?.className")).toBe("language");
    });
    test("Enter that is held down presses once", async (t) => {
      const { page, requests } = await visit(t, station);
      await button(page, "Pause").click({ trial: true });
      await button(page, "Pause").focus();
      await page.keyboard.down("Enter");
      await button(page, "Resume").click({ trial: true }); // it can be pressed
      for (let repeats = 0; repeats < 5; repeats += 1) await page.keyboard.down("Enter");
      await sleep(500);
      expect(requests.filter((one) => /\/api\/(pause|resume)$/.test(one)).length).toBe(1);
      await page.keyboard.up("Enter");
      await page.keyboard.press("Enter");
      await button(page, "Pause").waitFor();
    });
    test("what else a scanner presses within a scan is no end of it", async (t) => {
      const { page } = await visit(t, station);
      await page.evaluate(`for (const key of [..."${OPERATOR.badge.slice(0, 4)}", "Backspace", ..."${OPERATOR.badge.slice(4)}", "Enter"])
        document.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }))`);
      await expect.poll(() => page.locator(".operator").innerText()).toContain("Ada");
    });
    test("a scanner that ends a scan twice presses nothing with the second", async (t) => {
      const { page, requests } = await visit(t, station);
      await button(page, "Pause").click({ trial: true });
      await button(page, "Pause").focus();
      await wedge(page, OPERATOR.badge, ["Enter", "Enter"]);
      await page.locator(".operator", { hasText: "Ada" }).waitFor();
      await sleep(500);
      expect(requests.filter((one) => one.endsWith("/api/pause"))).toEqual([]);
    });
  });

  test("its files have exact addresses, tags and a strict policy, and nothing else is there", async (t) => {
    const { station } = await lineOf(t, w, HAND);
    const page = await fetch(station.url);
    const policy = page.headers.get("content-security-policy") ?? "";
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "connect-src 'self'",
      "frame-ancestors 'none'",
      "form-action 'none'",
    ])
      expect(policy).toContain(rule);
    expect(policy).not.toContain("unsafe");
    const html = await page.text();
    expect(html).not.toMatch(/<script(?![^>]* src=)|<style|style="|\son\w+=|https?:/);
    const etag = page.headers.get("etag") ?? "";
    expect((await fetch(station.url, { headers: { "if-none-match": etag } })).status).toBe(304);
    const script = await fetch(`${station.url}/console.js`);
    expect([script.headers.get("content-type"), script.headers.get("content-encoding")]).toEqual([
      "text/javascript; charset=utf-8",
      "gzip",
    ]);
    expect(gzipSync(await script.text()).length).toBeLessThan(150_000);
    for (const path of ["/index.html", "/main.ts", "/web/main.ts", "/%2e%2e/config.ts", "/console.js/..%2fconfig.ts", "/package.json"])
      expect([path, (await fetch(station.url + path)).status]).toEqual([path, 404]);
  });
});
