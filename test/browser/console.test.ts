// The floor console in a real browser, as a shift lead sees it: on a panel of 1024×600 and on a phone, by day and by night, live, and without a thing from outside.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { closeContext, openBrowser } from "../../fixtures/browser.ts";
import { busyFloor, manyStations, STATIONS } from "../../fixtures/busy-floor.ts";
import { type Claim, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { eq } from "../../cloud/store/drizzle.ts";
import { devices } from "../../cloud/store/schema.ts";
import { listening } from "../../fixtures/listening.ts";
import { limits } from "#shared/limits.ts";
import { BEAT_MS } from "../../shared/beat.ts";
import { world } from "../world.ts";
import { startProxy } from "../../fixtures/tcp-proxy.ts";
import {
  axeSays,
  cutPlaceholders,
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
  shot,
  smallTargets,
} from "./eyes.ts";

const TOUCH_PX = 48;
/** 1280×1024 at 400 %. */
const ZOOMED = { width: 320, height: 256 };
/** Between the margins of a sheet that stands. */
const A4_PX = 718;

describe.skipIf(!executable)("the console", async () => {
  const w = await world({ settings: { IMPRIMATUR_WEBHOOK_PRIVATE: "on" } });
  const floor = await busyFloor(w);
  const key = async (scopes: string[]) =>
    (await floor.admin.post("/api-keys", { name: "shift lead", scopes })).body.data as { id: string; secret: string };
  const lead = await key(["*:*"]);
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser(executable ?? "");
  });
  afterAll(() => browser?.close());

  /** Signs in as somebody would, by hand. */
  async function signedIn(secret: string, options: BrowserContextOptions, look: (seen: Seen) => Promise<void>): Promise<void> {
    const seen = await opened(browser, { viewport: PANEL, locale: "en", ...options });
    const { page, context } = seen;
    await page.goto(`${w.url}/console`);
    await page.fill("input[name=key]", secret);
    await page.click("button[type=submit]");
    await page.waitForSelector("nav.views");
    try {
      await look(seen);
    } finally {
      await closeContext(context);
    }
  }
  const goTo = async (page: Page, path: string) => {
    await page.evaluate(`new Promise((there) => {
      if (location.hash === ${JSON.stringify(`#${path}`)}) return there();
      addEventListener("hashchange", () => requestAnimationFrame(() => setTimeout(there)), { once: true });
      location.hash = ${JSON.stringify(path)};
    })`);
    await settled(page);
  };
  /** Nothing loads any more, and everything that was asked for is there. */
  const settled = async (page: Page) => {
    await page.waitForSelector("main h1");
    await expect.poll(() => page.locator("main p.empty[role=status]").count()).toBe(0);
    await page.waitForTimeout(150);
  };

  const views = {
    overview: "The floor now",
    jobs: "Print jobs",
    [`jobs/${floor.sealed}`]: "Print job",
    attention: "Needs attention",
    stations: "Stations",
    "stations/01900000-0000-7000-8000-000000000050": "Press 50",
    products: "Products",
    [`products/${floor.product.id}`]: "Kettle 1.7",
    passports: "Passports",
    webhooks: "Webhooks",
    imports: "Imports",
    audit: "Audit log",
  };

  /** But that nobody had signed in yet, that a part isn't there, or that the machine was too busy for a moment. */
  const odd = (complaints: string[]): string[] => complaints.filter((text) => !/status of (401|404|503)/.test(text));
  test("every view is reached by its link and says what it is; nothing is asked of anybody else, nothing complains", async () => {
    await signedIn(lead.secret, {}, async ({ page, requests, complaints }) => {
      for (const [path, title] of Object.entries(views)) {
        if (path.includes("/")) await goTo(page, `/${path}`);
        else await page.click(`nav.views a[href="#/${path}"]`);
        await expect.poll(() => page.locator("main h1").innerText(), { message: path }).toBe(title);
        await settled(page);
        expect(await page.locator("main .notice.bad").count()).toBe(0);
      }
      expect(requests.filter((url) => !url.startsWith(`${w.url}/`) && !url.startsWith("data:"))).toEqual([]);
      expect(odd(complaints)).toEqual([]);
      expect(await page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]")).toEqual(["", 0, 0]);
    });
  });

  const looks = LANGUAGES.flatMap((locale, n) => [
    { locale, on: "panel", options: { viewport: PANEL }, colorScheme: n % 2 === 0 ? ("light" as const) : ("dark" as const) },
    {
      locale,
      on: "phone",
      options: { viewport: PHONE, deviceScaleFactor: 2, hasTouch: true },
      colorScheme: n % 2 === 0 ? ("dark" as const) : ("light" as const),
    },
  ]);
  test.each(looks)(
    "in $locale on a $on, $colorScheme: nothing for axe to find, nothing runs off or is cut, all big enough for a finger",
    async ({ locale, on, options, colorScheme }) => {
      const look = async (page: Page, name: string) => {
        await shot(page, `floor/${name}-${locale}-${on}`);
        expect([name, await axeSays(page)]).toEqual([name, []]);
        expect([name, await overflow(page), await cutTexts(page), await cutPlaceholders(page)]).toEqual([name, 0, [], []]);
        const targets = "button, select, input:not([type=radio]), nav a, .chips a, .flow a, .button";
        expect([name, await smallTargets(page, targets, TOUCH_PX)]).toEqual([name, []]);
        expect(await page.getAttribute("html", "lang")).toBe(locale);
        if (locale !== "en") expect([name, await englishOn(page)]).toEqual([name, []]);
      };
      const stranger = await browser.newContext({ ...options, colorScheme, locale, bypassCSP: true });
      const door = await stranger.newPage();
      await door.goto(`${w.url}/console`);
      await door.waitForSelector("input[name=key]");
      await look(door, "sign-in");
      await stranger.close();
      await signedIn(lead.secret, { ...options, colorScheme, locale, bypassCSP: true }, async ({ page }) => {
        for (const path of Object.keys(views)) {
          await goTo(page, `/${path}`);
          if (path.startsWith("jobs/")) {
            await shot(page, `floor/job-life-${locale}-${on}`);
            await page.click("main .proof button");
            await page.waitForSelector(".verdict");
            await page.locator("details summary").first().click();
          }
          await look(page, path.replace(/\/.*/, "-one"));
        }
      });
    },
    120_000,
  );

  test("signing in by hand: a wrong key is told, a client works as well, signing out ends it", async () => {
    const client = (await floor.admin.post("/oauth/clients", { name: "wall screen", scopes: ["aidc:read"] })).body;
    const context = await browser.newContext({ viewport: PANEL, locale: "en" });
    const page = await context.newPage();
    await page.goto(`${w.url}/console`);
    const longest = "k".repeat(limits.SECRET_MAX_LENGTH);
    await page.fill("input[name=key]", longest);
    expect(await page.inputValue("input[name=key]")).toBe(longest);
    await page.fill("input[name=key]", "certainly nobody's key");
    await page.click("button[type=submit]");
    await page.waitForSelector("[role=alert] .notice");
    await page.click("input[value=client]");
    await page.fill("input[name=client_id]", client.client_id);
    await page.fill("input[name=client_secret]", client.client_secret);
    await page.click("button[type=submit]");
    await page.waitForSelector("nav.views");
    await page.reload();
    await page.waitForSelector("nav.views"); // the session outlives a reload
    await page.click("text=Sign out");
    await page.waitForSelector("input[name=key]");
    expect(await page.getByText("You were signed out").count()).toBe(0);
    await page.reload();
    await page.waitForSelector("input[name=key]");
    expect(await context.cookies()).toEqual([]);
    await closeContext(context);
  });

  test("a revoked key ends the page's session before anybody touches it", async () => {
    const { id, secret } = await key(["aidc:read"]);
    await signedIn(secret, {}, async ({ page }) => {
      await page.waitForSelector(".live.live");
      await floor.admin.delete(`/api-keys/${id}`);
      await page.waitForSelector("input[name=key]");
      expect(await page.locator("nav.views").count()).toBe(0);
      await page.getByText("You were signed out").waitFor(); // nobody here has pressed anything
    });
  });

  test("what the credential may not see is said to be so, and is no error", async () => {
    const { secret } = await key(["products:read"]);
    await signedIn(secret, {}, async ({ page }) => {
      for (const path of ["overview", "jobs", "stations", "audit", "passports"]) {
        await goTo(page, `/${path}`);
        expect([path, await page.locator("main .notice strong").first().innerText()]).toEqual([path, "Not allowed"]);
        expect(await page.locator("main .notice.bad").count()).toBe(0);
      }
      await goTo(page, "/products");
      await page.waitForSelector("main table");
    });
  });

  test("the figures move by themselves", async () => {
    await signedIn(lead.secret, {}, async ({ page, requests }) => {
      const sealed = () => page.locator(".flow a[href$=SEALED] .figure").innerText();
      await page.waitForSelector(".flow");
      const before = Number((await sealed()).replaceAll(/\D/g, ""));
      requests.length = 0;
      await floor.issue({ station: "line-7" });
      await floor.device.seal(await floor.device.claim({ station: "line-7" }));
      await expect.poll(async () => Number((await sealed()).replaceAll(/\D/g, ""))).toBe(before + 1);
      expect(requests.filter((url) => url.includes("/aidc/summary"))).toEqual([]); // the stream brought them
    });
  });

  test("a thousand stations: only those in view are in the page, the last is reached, a change shows by itself", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, "/stations");
      await expect.poll(() => page.getAttribute("[role=table]", "aria-rowcount")).toBe(String(STATIONS + 1));
      const rows = () => page.locator("[role=row]").count();
      expect(await rows()).toBeLessThan(40);
      await page.locator(".rows-box").evaluate((box) => box.scrollTo(0, box.scrollHeight));
      await page.waitForSelector(`[aria-rowindex="${STATIONS + 1}"]`);
      expect(await rows()).toBeLessThan(40);
      await page.fill("main input[type=search]", "line 1");
      await page.waitForSelector("text=line 1");
      await floor.device.api.post("/aidc/station", { status: "degraded", printers: [{ name: "zd621r", status: "head open" }] });
      await page.waitForSelector("text=zd621r: head open");
    });
  });

  test("a screen of any height is full of stations, and what a filter leaves is in view wherever one has scrolled to", async () => {
    await signedIn(lead.secret, { viewport: { width: 1080, height: 1920 } }, async ({ page }) => {
      await goTo(page, "/stations");
      /** The places of the rows at the upper and at the lower edge. */
      const edges = () =>
        page.evaluate<(string | null)[]>(`(() => {
          const { left, width, top, bottom } = document.querySelector(".rows-box").getBoundingClientRect();
          const at = (y) => document.elementFromPoint(left + width / 2, y)?.closest("[role=row]")?.getAttribute("aria-rowindex");
          return [at(top + 8) ?? null, at(bottom - 8) ?? null];
        })()`);
      await expect.poll(edges).not.toContain(null);
      await page.locator(".rows-box").evaluate((box) => box.scrollTo(0, box.scrollHeight / 2));
      await expect.poll(async () => Number((await edges())[0])).toBeGreaterThan(STATIONS / 3);
      await page.fill("main input[type=search]", "Press 50");
      await expect.poll(async () => (await edges())[0]).toBe("2"); // the first one
      await page.fill("main input[type=search]", "nobody's press");
      await page.waitForSelector("text=No station matches.");
      await page.fill("main input[type=search]", "");
      await expect.poll(edges).not.toContain(null);
    });
  });

  test("where text is twice as large a station's row has room for it", async () => {
    await signedIn(lead.secret, { viewport: PHONE, bypassCSP: true }, async ({ page }) => {
      await page.addStyleTag({ content: "html { font-size: 200% }" });
      await goTo(page, "/stations");
      await page.waitForSelector(".rows-box .row");
      await shot(page, "floor/stations-large-text");
      const sticksOut = `[...document.querySelectorAll(".rows-box .row > *")].filter((one) => {
        const [mine, row] = [one, one.parentElement].map((each) => each.getBoundingClientRect());
        return mine.height > 0 && (mine.top < row.top - 1 || mine.bottom > row.bottom + 1);
      }).map((one) => one.textContent)`;
      expect(await page.evaluate(sticksOut)).toEqual([]);
      await page.locator(".rows-box").evaluate((box) => box.scrollTo(0, box.scrollHeight));
      await page.waitForSelector(`[aria-rowindex="${STATIONS + 1}"]`);
    });
  });

  test("a printer's state of any length is read whole at its station's own place, by touch and by key, and stays up to date", async () => {
    const shop = await printShop(w);
    const { id } = (await shop.device.api.get("/aidc/station")).body.device;
    const long = `${"the queue waits for the operator, who ".repeat(5)}ends`;
    const report = (status: string) =>
      shop.device.api.post("/aidc/station", { status: "degraded", printers: [{ name: "zd621r", status }] });
    await report(long);
    for (const viewport of [PANEL, PHONE, ZOOMED])
      await signedIn(shop.adminKey, { viewport, bypassCSP: true, hasTouch: true }, async ({ page }) => {
        await goTo(page, "/stations");
        const row = page.locator(".rows-box .row").first();
        const { height = 0 } = (await row.boundingBox()) ?? {};
        await row.tap({ position: { x: 3, y: height - 3 } });
        await expect.poll(() => page.evaluate("location.hash")).toBe(`#/stations/${id}`);
        const said = page.locator("main dd", { hasText: long });
        await said.waitFor();
        expect(await said.evaluate((dd) => dd.scrollWidth - dd.clientWidth)).toBe(0);
        expect([await overflow(page), await cutTexts(page), await axeSays(page)]).toEqual([0, [], []]);
        await page.goBack();
        await page.locator(".rows-box").focus();
        await page.keyboard.press("Tab");
        await page.keyboard.press("Enter");
        await said.waitFor();
        await shot(page, `floor/station-${viewport.width}`);
        if (viewport !== PANEL) return;
        await page.waitForSelector(".live.live");
        await report("head open");
        await page.locator("main dd", { hasText: "head open" }).waitFor();
        await report(long);
      });
  });

  test("of more changes at once than are told one by one it shows each: what is new, and what is gone", async () => {
    const own = await world();
    const { data: tenant, adminKey } = (await own.admin.post("/tenants", { name: "many changes" })).body;
    const [gone, all] = [2_100, 2_105];
    await manyStations(own, tenant.id, all, (n, now) => ({
      report: { status: "online" },
      lastSeenAt: now - 30_000,
      updatedAt: now - 3_600_000,
      deletedAt: n <= gone ? now - 3_600_000 : null, // so that the page has a list to read that is soon read
    }));
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    await page.goto(`${own.url}/console#/stations`);
    await page.fill("input[name=key]", adminKey.secret);
    await page.click("button[type=submit]");
    await page.getByText("Press 2105").waitFor();
    await own.store.write("many changes", async ({ db, now }) => {
      await db.update(devices).set({ updatedAt: now, report: { status: "degraded" } });
      await db.update(devices).set({ deletedAt: now }).where(eq(devices.name, "Press 2104"));
    });
    await expect.poll(() => page.locator("main p.quiet[role=status]").innerText()).toMatch(/\b0 online\b.*\b4 degraded\b/);
    expect(await page.getByText("Press 2104").count()).toBe(0);
    await closeContext(context);
  });

  const PROOF = ".proof .verdict";
  async function verify(page: Page): Promise<{ verdict: string; checks: string[] }> {
    await goTo(page, `/jobs/${floor.sealed}`);
    await page.click(".proof button");
    await page.waitForSelector(PROOF);
    return { verdict: await page.locator(PROOF).innerText(), checks: await page.locator(".checks strong").allInnerTexts() };
  }

  test("verify says that it holds, every check of it", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      const { verdict, checks } = await verify(page);
      expect(verdict).toMatch(/^It holds/);
      expect(checks).toEqual(["holds", "holds", "holds", "holds", "holds", "holds"]);
      await page.locator(".picture img").scrollIntoViewIfNeeded();
      await expect.poll(() => page.evaluate(`document.querySelector(".picture img").naturalWidth`)).toBe(240);
    });
  });

  type Bundle = {
    sha256: string;
    items: { evidence: Record<string, Record<string, unknown>> }[];
    proof: { proof: string[]; root: string; checkpoint: string; entry: { at: string }; size: number; index: number };
  };
  const lies: [string, (bundle: Bundle) => void, string[]][] = [
    [
      "evidence that was changed",
      ({ items }) => Object.assign(items[2]?.evidence["completion"] ?? {}, { grade: "A+" }),
      ["bundle", "entry"],
    ],
    ["a digest that was changed along", (bundle) => Object.assign(bundle, { sha256: "0".repeat(64) }), ["bundle"]],
    ["an entry of another time", ({ proof }) => Object.assign(proof.entry, { at: "2020-01-01T00:00:00.000Z" }), ["entry", "inclusion"]],
    ["a path that leads elsewhere", ({ proof }) => Object.assign(proof, { proof: proof.proof.map(() => "0".repeat(64)) }), ["inclusion"]],
    ["a path that was cut", ({ proof }) => Object.assign(proof, { proof: proof.proof.slice(1) }), ["inclusion"]],
    ["another root", ({ proof }) => Object.assign(proof, { root: "0".repeat(64) }), ["inclusion", "head", "signature"]],
    [
      "a head that nobody signed",
      ({ proof }) =>
        Object.assign(proof, { checkpoint: proof.checkpoint.replace(/[^\n]+\n$/, `\u2014 x ${Buffer.alloc(68).toString("base64")}\n`) }),
      ["signature"],
    ],
    ["a head that isn't one", ({ proof }) => Object.assign(proof, { checkpoint: "hello" }), ["head", "signature"]],
  ];
  const NAMES = ["bundle", "pictures", "entry", "inclusion", "head", "signature"];
  test.each(lies)("verify finds %s", async (_what, lie, broken) => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await page.route("**/evidence", async (route) => {
        const response = await route.fetch();
        const bundle = (await response.json()) as Bundle;
        lie(bundle);
        await route.fulfill({ response, json: bundle });
      });
      const { verdict, checks } = await verify(page);
      expect(verdict).toMatch(/^It doesn't hold/);
      expect(NAMES.filter((_name, i) => checks[i] === "doesn't hold")).toEqual(broken);
    });
  });

  test.each(["Fri, 31 Dec 2027 23:59:59 GMT", "4294968"])("a proxy that says %s isn't asked without a pause", async (after) => {
    await signedIn(lead.secret, {}, async ({ page, requests }) => {
      await page.route("**/aidc/summary", (route) => route.fulfill({ status: 503, headers: { "retry-after": after }, body: "" }));
      requests.length = 0;
      await page.reload();
      await page.waitForSelector("nav.views");
      await page.waitForTimeout(1_500);
      expect(requests.filter((url) => url.endsWith("/aidc/summary")).length).toBe(1);
    });
  });

  test("verify finds a picture that was swapped", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await page.route("**/aidc/evidence/*", (route) => route.fulfill({ contentType: "image/png", body: Buffer.from("another picture") }));
      const { checks } = await verify(page);
      expect(NAMES.filter((_name, i) => checks[i] === "doesn't hold")).toEqual(["pictures"]);
    });
  });

  test.each(["**/evidence", "**/.well-known/jwks.json"])("verify says nothing against evidence when %s isn't answered", async (what) => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, `/jobs/${floor.sealed}`);
      await page.route(what, (route) => route.abort());
      await page.click(".proof button");
      await expect.poll(() => page.locator(".proof [role=status]").innerText()).toBe("The cloud couldn't be reached.");
      await page.unroute(what);
      await page.click(".proof button");
      await expect.poll(() => page.locator(".proof .verdict").innerText()).toMatch(/^It holds/);
    });
  });

  test("without the browser's cryptography it computes SHA-256 itself, and says what it couldn't check", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await page.addInitScript(() => Object.defineProperty(crypto, "subtle", { value: undefined }));
      await page.reload();
      await page.waitForSelector("nav.views");
      const { verdict, checks } = await verify(page);
      expect(verdict).toMatch(/^What could be checked holds/);
      expect(checks).toEqual(["holds", "holds", "holds", "holds", "holds", "not checked"]);
      await page.waitForSelector("text=This page came over plain http");
    });
  });

  test("what was judged of a job that wasn't sealed yet isn't said of it any more once it is", async () => {
    const shop = await printShop(w);
    await shop.issue();
    const claimed = await shop.device.claim();
    const items = await shop.device.upTo(claimed, "SCAN_VERIFIED");
    await signedIn(shop.adminKey, {}, async ({ page }) => {
      await goTo(page, `/jobs/${claimed.job.job_ref}`);
      await page.click("text=Verify");
      await page.getByText("The job isn't sealed").waitFor();
      await shop.device.say(claimed, sealOf(items));
      await page.locator(".title .badge", { hasText: "Sealed" }).waitFor();
      await expect.poll(() => page.getByText("The job isn't sealed").count()).toBe(0);
    });
  });

  test("the re-print file of a dead letter is one click away", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      const dead = (await floor.admin.get(`/aidc/jobs/${floor.dead}`)).body;
      await page.click('nav.views a[href="#/attention"]');
      const [file] = await Promise.all([page.waitForEvent("download"), page.click("text=Re-print file (CSV)")]);
      const text = readFileSync(await file.path(), "utf8");
      expect(text.split("\n")[0]).toBe("gtin,serial,digital_link,sgtin96_epc");
      expect(text).toContain(`,${dead.serial},`);
      expect(await page.locator("main table").first().innerText()).toContain("Ribbon out, and no spare one at the line");
    });
  });

  test("a failed label that may exist is shown, however many failed without one since", async () => {
    const shop = await printShop(w);
    const { serial } = await shop.issue();
    const claimed = await shop.device.claim();
    await shop.device.upTo(claimed, "SPOOL_SUBMITTED");
    await shop.device.say(claimed, { status: "FAILED", reason: "jam" });
    const items = (await shop.allocate(60)).map((later) => ({ gtin: shop.gtin, serial: later, priority: 1 }));
    await shop.admin.post("/aidc/jobs/batch", { items });
    const { claims } = (await shop.device.api.post("/aidc/jobs/claim/batch", { max: 60, needs: ["qr"] })).body;
    const failed = { status: "FAILED", reason: "no ribbon" };
    const results = claims.map(({ job, attempt_id }: Claim) => ({ ...failed, job_ref: job.job_ref, attempt_id }));
    await shop.device.api.post("/aidc/results", { results });
    await signedIn(shop.adminKey, {}, async ({ page }) => {
      await goTo(page, "/attention");
      await page.getByText(serial, { exact: true }).waitFor({ timeout: 5_000 });
      expect(await page.getByText("no ribbon").count()).toBe(0);
    });
  });

  test("a label is found by its serial, by its job and by what a scanner types", async () => {
    const job = (await floor.admin.get(`/aidc/jobs/${floor.sealed}`)).body;
    await signedIn(lead.secret, {}, async ({ page }) => {
      for (const text of [job.serial, job.job_ref, job.digital_link, `]Q1${job.digital_link}`, `${job.digital_link}?linkType=gs1:dpp`]) {
        await goTo(page, "/jobs");
        await page.fill("main input[type=search]", text);
        await page.press("main input[type=search]", "Enter");
        await page.waitForSelector(".life");
        expect(await page.evaluate("location.hash")).toBe(`#/jobs/${job.job_ref}`);
      }
      await goTo(page, "/jobs");
      await page.fill("main input[type=search]", "999");
      await page.press("main input[type=search]", "Enter");
      await page.waitForSelector("text=No job has this serial or reference.");
    });
  });

  /** A webhook with a delivery that its receiver refused, as it does all. */
  async function refused(asked: () => void = () => {}) {
    const refusing = createServer((_request, response) => {
      asked();
      response.writeHead(404).end();
    });
    const url = `http://127.0.0.1:${await listening(refusing)}/hook`;
    const { id } = (await floor.admin.post("/webhooks", { url, events: ["print.failed"] })).body;
    await floor.admin.post(`/webhooks/${id}/test`, { type: "print.failed" });
    await expect.poll(async () => (await floor.admin.get(`/webhooks/${id}/deliveries`)).body.data[0]?.status).toBe("failed");
    return { url, id, end: () => refusing.close() };
  }

  test("a delivery that was refused is sent again with one touch", async () => {
    let asked = 0;
    const { url, end } = await refused(() => (asked += 1));
    await signedIn(lead.secret, {}, async ({ page }) => {
      await page.click('nav.views a[href="#/webhooks"]');
      await page.click(`text=${url}`);
      await page.click("main table button"); // once it was refused
      await page.waitForSelector("text=Tried again."); // refused anew: it isn't on its way any more
      expect([asked, await page.getByText("It is on its way again.").count()]).toEqual([2, 0]);
    });
    end();
  });

  test("a webhook is shown by its address, however many were made since", async () => {
    const { secret, admin: owner } = await w.tenant("many webhooks", { tier: "pro" });
    const { body: first } = await owner.post("/webhooks", { url: "http://127.0.0.1:1025/first", events: ["print.failed"] });
    for (let n = 0; n < 50; n += 1) await owner.post("/webhooks", { url: `http://127.0.0.1:1025/${n}`, events: ["print.failed"] });
    await signedIn(secret, {}, async ({ page }) => {
      await goTo(page, `/webhooks/${first.id}`);
      expect(await page.locator("main table").first().innerText()).toContain(first.url);
    });
  });

  test("the audit chain is checked on demand", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, "/audit");
      await page.click("text=Check the chain");
      expect(await page.locator(".chain .verdict").innerText()).toMatch(/^The chain holds: all \d+ rows/);
    });
  });

  test("who works by keyboard stays where he is while the cloud answers", async () => {
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    const pressed = async (what: string, then: string) => {
      await page.locator(what).focus();
      await page.keyboard.press("Enter");
      await page.waitForSelector(then);
      expect([what, await page.locator(what).evaluate((one) => one === one.ownerDocument.activeElement)]).toEqual([what, true]);
    };
    await page.goto(`${w.url}/console#/audit`);
    await page.fill("input[name=key]", "certainly nobody's key");
    await pressed("button[type=submit]", "[role=alert] .notice");
    await page.fill("input[name=key]", lead.secret);
    await page.press("input[name=key]", "Enter");
    await pressed(".chain button", ".chain .verdict");
    await goTo(page, `/jobs/${floor.sealed}`);
    await pressed(".proof button", PROOF);
    await closeContext(context);
  });

  test("a browser that translates pages leaves this one alone: what it has put into a text's place doesn't follow the floor", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      expect(await page.evaluate("document.documentElement.translate")).toBe(false);
      expect(await page.getAttribute("meta[name=google]", "content")).toBe("notranslate");
    });
  });

  test("who doesn't see the page change is told where it has come to; who chooses a language stays where he chooses", async () => {
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    const at = async () => [await page.title(), await page.evaluate("document.activeElement.textContent")];
    await page.goto(`${w.url}/console#/audit`);
    await page.fill("input[name=key]", lead.secret);
    expect(await page.title()).toBe("Sign in · Imprimatur");
    await page.click("button[type=submit]");
    await expect.poll(at).toEqual(["Audit · Imprimatur", "Audit log"]);
    await page.locator("select").focus();
    for (const locale of LANGUAGES.slice(1)) {
      await page.keyboard.press("ArrowDown");
      await expect.poll(() => page.getAttribute("html", "lang")).toBe(locale);
    }
    await page.selectOption("select", "en");
    await page.click("text=Sign out");
    await expect.poll(at).toEqual(["Sign in · Imprimatur", "Sign in"]);
    await closeContext(context);
  });

  test("a browser whose language has no name that Intl knows has the page too, figures and chart", async () => {
    const { page, context, complaints } = await opened(browser, { viewport: PANEL });
    await page.addInitScript(`Object.defineProperty(Navigator.prototype, "language", { get: () => "en-US@posix" })`); // Chromium's, where LANG is C
    await page.goto(`${w.url}/console`);
    await page.fill("input[name=key]", lead.secret);
    await page.click("button[type=submit]");
    await page.waitForSelector(".chart canvas");
    await goTo(page, "/stations");
    await page.waitForSelector("[role=row]");
    expect(await page.getAttribute("html", "lang")).toBe("en");
    expect(odd(complaints)).toEqual([]);
    await closeContext(context);
  });

  test("all it says is there in every language, and the choice is kept", async () => {
    await signedIn(lead.secret, { locale: "fr" }, async ({ page }) => {
      const said = new Set<string>();
      for (const language of ["en", "de", "es", "zh-Hans"]) {
        await page.selectOption("select", language);
        expect(await page.getAttribute("html", "lang")).toBe(language);
        said.add(await page.locator("main h1").innerText());
      }
      expect(said.size).toBe(4);
      await page.reload();
      await page.waitForSelector("nav.views");
      expect(await page.getAttribute("html", "lang")).toBe("zh-Hans");
    });
  });

  test("what a product is called is text in every view that names it", async () => {
    const name = `<img src=x onerror="alert(1)"> & <b>Pan</b>`;
    const made = {
      name,
      description: "A pan of cast iron",
      category: "electronics",
      gtin: "4006381333931",
      serialNumber: "P-1",
      extensions: {},
    };
    const { status, body } = await floor.admin.post("/products", made);
    expect([status, body.error]).toEqual([201, undefined]);
    const { id } = body;
    await signedIn(lead.secret, {}, async ({ page, complaints }) => {
      for (const path of ["products", `products/${id}`]) {
        await goTo(page, `/${path}`);
        await page.getByText(name, { exact: true }).first().waitFor();
      }
      expect(await page.locator("main img, main td b, h1 b").count()).toBe(0);
      expect(complaints.join()).not.toContain("alert");
    });
  });

  test("what a tenant is called is text, and no script gets in but ours", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      expect(await page.locator(".tenant").innerText()).toBe("Werk Süd <b>& Co</b>");
      const policy = (await fetch(`${w.url}/console`)).headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
      expect(policy).not.toMatch(/unsafe|https?:|\*/);
      const ran = await page.evaluate(`
        try {
          const script = document.createElement("script");
          script.append("globalThis.broughtIn = true");
          document.body.append(script);
        } catch {} // refused even as text
        "broughtIn" in globalThis`);
      expect(ran).toBe(false);
    });
  });

  test("a link that nobody could have meant breaks nothing", async () => {
    await signedIn(lead.secret, {}, async ({ page, complaints }) => {
      await goTo(page, "/jobs/%zz");
      await page.getByText("There is nothing at this address").waitFor();
      expect(odd(complaints)).toEqual([]);
      await goTo(page, "/stations");
      expect(await page.textContent("main h1")).toBe("Stations");
    });
  });

  test("a line that goes silent without closing is told as lost, and the page is live again once it is mended", async (t) => {
    const line = await startProxy(() => ({ port: Number(new URL(w.url).port) }));
    t.onTestFinished(line.end);
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    t.onTestFinished(() => closeContext(context));
    await page.clock.install();
    await page.goto(`http://127.0.0.1:${line.port}/console`);
    await page.fill("input[name=key]", lead.secret);
    await page.click("button[type=submit]");
    await page.waitForSelector(".live.live");
    await page.waitForSelector(".flow");
    line.afflict({ kind: "black-hole" });
    await page.clock.fastForward(2 * BEAT_MS);
    await page.waitForSelector(".live.waiting");
    line.heal();
    await expect.poll(() => page.locator(".live").getAttribute("class")).toBe("live live");
  });

  test("signing out while the cloud is away is told, and pretends nothing", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await page.route("**/console/session", (route) => route.abort());
      await page.click("text=Sign out");
      await page.getByRole("alert").getByText("You are still signed in").waitFor();
      expect(await page.locator("input[name=key]").count()).toBe(0);
      await page.unroute("**/console/session");
      await page.click("text=Sign out");
      await page.waitForSelector("input[name=key]");
      expect(await page.getByText("You are still signed in").count()).toBe(0);
    });
  });

  const isHidden = (page: Page, is: boolean) =>
    page.evaluate(`Object.defineProperty(document, "hidden", { value: ${is}, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"))`);
  async function inAnotherTab(context: BrowserContext, key: string): Promise<void> {
    const second = await context.newPage();
    await second.goto(`${w.url}/console`);
    await second.fill("input[name=key]", key);
    await second.click("button[type=submit]");
    await second.waitForSelector("nav.views");
  }

  test("a tab that waits at the door is in once another one has signed in", async (t) => {
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    t.onTestFinished(() => closeContext(context));
    await page.goto(`${w.url}/console`);
    await page.waitForSelector("input[name=key]");
    await isHidden(page, true);
    await inAnotherTab(context, lead.secret);
    await isHidden(page, false);
    await expect.poll(() => page.locator("nav.views").count()).toBe(1);
  });

  test("a tab that waits at the door asks no more often for being looked at again and again while the cloud is away", async (t) => {
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    t.onTestFinished(() => closeContext(context));
    await page.clock.install();
    await page.goto(`${w.url}/console`);
    await page.waitForSelector("input[name=key]");
    let asked = 0;
    await page.route("**/console/session", (route) => ((asked += 1), route.abort()));
    for (let looks = 1; looks <= 3; looks += 1) {
      await isHidden(page, false);
      await expect.poll(() => asked).toBe(looks);
    }
    await page.clock.runFor(5_500);
    await expect.poll(() => asked).toBe(4);
    await page.clock.runFor(5_500);
    await expect.poll(() => asked).toBe(5);
  });

  test("a tab that was away while another one signed in as somebody else shows theirs under their name", async () => {
    const other = (await w.tenant("the other works", { tier: "pro" })).secret;
    await signedIn(lead.secret, {}, async ({ page, context }) => {
      await page.waitForSelector(".live.live");
      await isHidden(page, true);
      await context.clearCookies();
      await inAnotherTab(context, other);
      await isHidden(page, false);
      await expect.poll(() => page.locator(".tenant").innerText()).toBe("the other works");
    });
  });

  test("signing in while the cloud is away says so", async () => {
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    await page.goto(`${w.url}/console`);
    await page.route("**/console/session", (route) => route.abort());
    await page.fill("input[name=key]", lead.secret);
    await page.click("button[type=submit]");
    await expect.poll(() => page.getByRole("alert").innerText()).toContain("The cloud couldn't be reached.");
    await closeContext(context);
  });

  test.each(LANGUAGES)("why something wasn't done is said in the page's own language: %s", async (locale) => {
    const { page, context } = await opened(browser, { viewport: PANEL, locale });
    await page.goto(`${w.url}/console`);
    await page.fill("input[name=key]", "certainly nobody's key");
    await page.click("button[type=submit]");
    const said = page.locator("[role=alert] .notice");
    await said.waitFor();
    expect(await said.locator("[lang]").count()).toBe(0); // none of the cloud's own words
    expect(/wrong, revoked/.test(await said.innerText())).toBe(locale === "en");
    await closeContext(context);
    const { id, end } = await refused();
    await signedIn(lead.secret, { locale }, async ({ page }) => {
      await goTo(page, `/webhooks/${id}`);
      await page.waitForSelector("main table button");
      await floor.admin.delete(`/webhooks/${id}`);
      await page.locator("main table button").click();
      const why = page.locator("main table [role=status]");
      await expect.poll(() => why.innerText()).not.toBe("");
      expect(await why.locator("[lang]").count()).toBe(0);
      expect((await why.innerText()).startsWith("It isn't there")).toBe(locale === "en");
    });
    end();
  });

  test("a browser that doesn't keep the session is told so, and not that the session is over", async () => {
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    await keepsNothing(page);
    await page.route("**/console/session", async (route) => {
      const response = await route.fetch();
      await context.clearCookies();
      const { "set-cookie": _, ...headers } = response.headers();
      await route.fulfill({ response, headers });
    });
    await page.goto(`${w.url}/console`);
    await page.fill("input[name=key]", lead.secret);
    await page.click("button[type=submit]");
    await page.locator("form .notice").waitFor();
    expect(await page.getByText("You were signed out").count()).toBe(0);
    expect(await page.locator("[role=alert] .notice").innerText()).toContain("doesn't keep the session");
    await closeContext(context);
  });

  test("who was wrong too often is told so, and how long to wait, in the page's own language", async () => {
    const { client_id: id } = (await floor.admin.post("/oauth/clients", { name: "too often", scopes: ["aidc:read"] })).body;
    const secret = "certainly nobody's secret";
    const [method, headers] = ["POST", { "content-type": "application/json" }];
    const body = JSON.stringify({ client_id: id, client_secret: secret });
    for (let tries = 0; tries < limits.WRONG_SECRETS_PAIR_MAX; tries += 1)
      await fetch(`${w.url}/console/session`, { method, headers, body });
    for (const locale of LANGUAGES) {
      const { page, context } = await opened(browser, { viewport: PANEL, locale });
      await page.goto(`${w.url}/console`);
      await page.click("input[value=client]");
      await page.fill("input[name=client_id]", id);
      await page.fill("input[name=client_secret]", secret);
      await page.click("button[type=submit]");
      const said = page.locator("[role=alert] .notice");
      await said.waitFor();
      expect(await said.locator("[lang]").count()).toBe(0); // none of the cloud's own words
      expect([locale, /wrong secrets/.test(await said.innerText())]).toEqual([locale, locale === "en"]);
      const [seconds] = /\d+/.exec(await said.innerText()) ?? [];
      expect([locale, Number(seconds) > 60]).toEqual([locale, true]); // a minute would be too short
      await closeContext(context);
    }
  });

  test("faults of an import, reasons of jobs and how printers are: all in the reader's language, and what a person wrote is quoted", async () => {
    const shop = await printShop(w);
    const header = "name,description,gtin,serialNumber,countryOfManufacture,durabilityWashCycles";
    const imported = async (csv: string): Promise<string> => {
      const headers = { "content-type": "text/csv" };
      const { id } = (await shop.admin.send("POST", "/imports?category=textile", { body: csv, headers })).body.data;
      await expect.poll(async () => (await shop.admin.get(`/imports/${id}`)).body.status).toMatch(/completed|failed/);
      return id;
    };
    const rows = await imported(
      `${header}\n,Too short,4006381333932,1,Germany,-4\nShirt,A shirt of cotton,40x,"${"9".repeat(30)}",DE,many\nA,b\n`,
    );
    const file = await imported("name,colour,colour\nShirt,red,red\n");
    const failing = async (reason: string) => {
      await shop.issue({ max_attempts: 1 });
      const claimed = await shop.device.claim();
      await shop.device.upTo(claimed, "SPOOL_SUBMITTED");
      await shop.device.say(claimed, { status: "FAILED", reason });
      await expect.poll(async () => (await shop.admin.get(`/aidc/jobs/${claimed.job.job_ref}`)).body.state).toBe("DEAD_LETTER");
    };
    await failing("an operator found a misprint: it couldn't be verified by a scan");
    await failing("the printer waits: it is out of labels, its head is open");
    await failing("the cat sat on it");
    const printers = [
      {
        name: "zd621r",
        status: "offline: tcp://10.0.0.7:9100: nothing listens there: is the device on, and is this its port? (ECONNREFUSED)",
      },
    ];
    await shop.device.api.post("/aidc/station", { status: "degraded", printers });
    await failing("the queue refused the label: Toner almost empty");
    await signedIn(shop.adminKey, { locale: "de", viewport: PHONE }, async ({ page }) => {
      for (const path of ["jobs", "attention", "audit"]) {
        await goTo(page, `/${path}`);
        await page.locator("main td").first().waitFor();
        await shot(page, `floor/told-${path}-phone`, true);
        const parted = "td => [...td.childNodes].filter((one) => one.nodeType === 1 || one.data.trim() !== '').length > 1"; // a title, and one thing beside it
        expect([
          path,
          await page.evaluate(`[...document.querySelectorAll("main td")].filter(${parted}).map((td) => td.textContent)`),
        ]).toEqual([path, []]);
      }
    });
    for (const locale of ["de", "es", "zh-Hans"])
      await signedIn(shop.adminKey, { locale }, async ({ page }) => {
        for (const path of [`imports/${rows}`, `imports/${file}`, "jobs", "attention", "stations"]) {
          await goTo(page, `/${path}`);
          await page.locator("main table, main [role=row], main .facts").first().waitFor();
          await shot(page, `floor/told-${path.replace(/\/.*/, path.endsWith(file) ? "-file" : "")}-${locale}`);
          expect([locale, path, await englishOn(page)]).toEqual([locale, path, []]);
          if (path.endsWith(rows)) expect(new Set(await page.locator("main tbody td:last-child").allInnerTexts()).size).toBeGreaterThan(5); // each what is wrong
          expect(await page.locator("main q").allInnerTexts()).toEqual(
            ["jobs", "attention"].includes(path) ? ["Toner almost empty", "the cat sat on it"] : [],
          );
        }
      });
  });

  test("a search that is answered late takes nobody away from where they are by then", async () => {
    const { serial } = (await floor.admin.get(`/aidc/jobs/${floor.sealed}`)).body;
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, "/jobs");
      let answer = () => {};
      await page.route("**/aidc/jobs?limit=1*", async (route) => {
        await new Promise<void>((resolve) => (answer = resolve));
        await route.continue();
      });
      await page.fill("main input[type=search]", serial);
      const asked = page.waitForRequest("**/aidc/jobs?limit=1*");
      await page.press("main input[type=search]", "Enter");
      await asked;
      await goTo(page, "/stations");
      const answered = page.waitForResponse("**/aidc/jobs?limit=1*");
      answer();
      await answered;
      await page.waitForTimeout(300);
      expect(await page.evaluate("location.hash")).toBe("#/stations");
    });
  });

  test("a search for a product is a place: a reload and the way back lead there", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, "/products");
      await page.fill("main input[type=search]", "kettle & co?");
      await page.press("main input[type=search]", "Enter");
      await page.getByText("No product has this name.").waitFor();
      await page.reload();
      await page.getByText("No product has this name.").waitFor();
      expect(await page.inputValue("main input[type=search]")).toBe("kettle & co?");
      await page.fill("main input[type=search]", "kettle");
      await page.press("main input[type=search]", "Enter");
      await page.click("main table a");
      await page.waitForSelector(".life");
      await page.goBack();
      await page.waitForSelector("main table");
      expect(await page.inputValue("main input[type=search]")).toBe("kettle");
    });
  });

  test("what is typed is left as it is when another language is chosen", async () => {
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    await page.goto(`${w.url}/console`);
    await page.click("input[value=client]");
    await page.fill("input[name=client_id]", "wall screen");
    await page.fill("input[name=client_secret]", "its secret");
    await page.selectOption("header select", "de");
    await page.getByRole("heading", { name: "Anmelden" }).waitFor();
    expect([await page.inputValue("input[name=client_id]"), await page.inputValue("input[name=client_secret]")]).toEqual([
      "wall screen",
      "its secret",
    ]);
    await closeContext(context);
    await signedIn(lead.secret, {}, async ({ page }) => {
      for (const path of ["jobs", "stations", "products"]) {
        await goTo(page, `/${path}`);
        await page.fill("main input[type=search]", "Press 50");
        for (const code of ["de", "en"]) {
          await page.selectOption("header select", code);
          await expect.poll(() => page.getAttribute("html", "lang")).toBe(code);
        }
        expect([path, await page.inputValue("main input[type=search]")]).toEqual([path, "Press 50"]);
      }
    });
  });

  test("who comes to a product is told so, also while it loads and where there is none", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, "/products");
      await page.click(`main table a[href="#/products/${floor.product.id}"]`);
      await page.waitForSelector(".life");
      expect(await page.evaluate("document.activeElement.textContent")).toBe("Kettle 1.7");
      await page.evaluate(`location.hash = "/products/${floor.sealed}"`);
      await page.waitForSelector("main .notice");
      expect(await page.evaluate("document.activeElement.textContent")).toBe("Products");
    });
  });

  test("a passport whose published version was revoked isn't shown as good, and is said why it can't be printed", async () => {
    const { admin, adminKey, product, passportId } = await printShop(w);
    await signedIn(adminKey, {}, async ({ page }) => {
      await goTo(page, "/passports");
      const badge = page.locator("main .badge").first();
      expect([await badge.innerText(), await badge.getAttribute("class")]).toEqual(["Published", "badge good"]);
      await admin.post(`/credentials/${passportId}/revoke`);
      await expect.poll(() => badge.innerText()).toBe("Revoked");
      await goTo(page, `/products/${product.id}`);
      await expect.poll(() => page.locator("main .verdict").innerText()).toContain("was revoked, for good");
      expect(await page.locator("main .card .badge").first().innerText()).toBe("Revoked");
    });
  });

  test("a node of the version before, which doesn't say what was revoked, makes no passport look revoked", async () => {
    const { adminKey, product } = await printShop(w);
    await signedIn(adminKey, {}, async ({ page }) => {
      await page.route("**/passports?*", async (route) => {
        const response = await route.fetch();
        const { data, ...rest } = (await response.json()) as { data: { credentialRevokedAt?: string }[] };
        await route.fulfill({ response, json: { ...rest, data: data.map(({ credentialRevokedAt: _, ...passport }) => passport) } });
      });
      await page.route("**/validations*", async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...((await response.json()) as object), readyToPrint: false } });
      });
      await goTo(page, "/passports?status=published");
      expect(await page.locator("main .badge").first().innerText()).toBe("Published");
      await goTo(page, `/products/${product.id}`);
      expect(await page.locator("main .verdict").innerText()).toContain("it has to be published, and that version anchored");
    });
  });

  test("of an import that still waits it is said that its rows aren't counted, and not that something is unknown", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      const times = { createdAt: "2026-11-29T10:00:00.000Z", updatedAt: "2026-11-29T10:00:00.000Z" };
      const counts = { bytes: 9, total: null, processed: 0, created: 0, failed: 0, fault: null, errors: [] };
      const data = [{ id: "019a0000-0000-7000-8000-000000000001", category: "electronics", status: "pending", ...counts, ...times }];
      await page.route("**/api/v2/imports", (route) => route.fulfill({ json: { data, nextCursor: null } }));
      await goTo(page, "/imports");
      await expect.poll(() => page.locator("main table").innerText()).toContain("not counted");
      expect(await page.locator("main table").innerText()).not.toContain("unknown");
    });
  });

  test("an import of which more is wrong than is kept says that not all of it is shown", async () => {
    const shop = await printShop(w);
    const body = `name,description,gtin,serialNumber\n${"Pot,short,1,1\n".repeat(600)}`; // two faults a row
    const headers = { "content-type": "text/csv" };
    const { id } = (await shop.admin.send("POST", "/imports?category=electronics", { body, headers })).body.data;
    await expect.poll(async () => (await shop.admin.get(`/imports/${id}`)).body.status, { timeout: 20_000 }).toBe("completed");
    await signedIn(shop.adminKey, {}, async ({ page }) => {
      await goTo(page, `/imports/${id}`);
      await page.waitForSelector("main tbody tr");
      expect(await page.getByText("Only the first are shown.").count()).toBe(1);
    });
  });

  test("a name of any script and length makes no view wider, at any zoom", async () => {
    const product = "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz".repeat(3);
    const shop = await printShop(w, { product, name: "الرئيسي".repeat(20) });
    await shop.issue({ station: "w".repeat(64) });
    for (const viewport of [PANEL, { width: 512, height: 300 }, ZOOMED])
      await signedIn(shop.adminKey, { viewport }, async ({ page }) => {
        for (const path of ["overview", "jobs", "products", `products/${shop.product.id}`, "audit"]) {
          await goTo(page, `/${path}`);
          await page.waitForSelector(path === "overview" ? "main .bar-name" : "main table, main .life");
          const whole = `[...document.querySelectorAll(".bar-name")].every((one) => one.scrollWidth <= one.clientWidth)`;
          expect([path, viewport.width, await page.evaluate(whole)]).toEqual([path, viewport.width, true]);
          const over = await page.evaluate(
            `Math.max(...[document.documentElement, document.querySelector("main")].map((one) => one.scrollWidth - one.clientWidth))`,
          );
          expect([path, viewport.width, over]).toEqual([path, viewport.width, 0]);
        }
      });
  });

  test("zoomed to 400 % a view has the whole screen, and a thousand stations are still a window", async () => {
    await signedIn(lead.secret, { viewport: ZOOMED }, async ({ page }) => {
      await goTo(page, "/audit");
      await page.waitForSelector("main table");
      await page.evaluate("scrollTo(0, 1e6)");
      expect((await page.locator(".views").boundingBox())?.y).toBeLessThan(-ZOOMED.height);
      await goTo(page, "/stations");
      await page.waitForSelector("[role=row]");
      expect(await page.locator("[role=row]").count()).toBeLessThan(40);
    });
  });

  test.each(LANGUAGES)("in %s a list is as wide as its place: on a phone on its side, on a tablet, on paper", async (locale) => {
    const widths = [705, 740, 768, 800, 844, 897, 915, 932, 960];
    await signedIn(lead.secret, { locale }, async ({ page }) => {
      for (const path of Object.keys(views).filter((one) => !one.startsWith("jobs/"))) {
        await goTo(page, `/${path}`);
        const over = async (width: number) => {
          await page.setViewportSize({ width, height: 412 });
          return page.evaluate<number>(
            `Math.max(...[document.documentElement, document.querySelector("main")].map((one) => one.scrollWidth - one.clientWidth))`,
          );
        };
        for (const width of widths) expect([path, width, await over(width)]).toEqual([path, width, 0]);
        await page.emulateMedia({ media: "print" });
        expect([path, "A4", await over(A4_PX)]).toEqual([path, "A4", 0]);
        await page.emulateMedia({ media: null });
      }
    });
  });

  test("on paper a view is whole, without what is there to be pressed", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, "/audit");
      await page.waitForSelector("main table");
      await page.emulateMedia({ media: "print" });
      expect(await page.evaluate(`document.querySelector("main").scrollHeight - document.querySelector("main").clientHeight`)).toBe(0);
      expect(await page.evaluate("document.documentElement.scrollHeight")).toBeGreaterThan(PANEL.height);
      expect(await page.locator("nav:visible, button:visible, select:visible").count()).toBe(0);
    });
  });

  test("on paper it is dark on white, its chart too, though the screen is dark", async () => {
    await signedIn(lead.secret, { colorScheme: "dark" }, async ({ page }) => {
      await page.waitForSelector(".chart canvas");
      const dots = () => page.locator(".chart canvas").evaluate((canvas) => (canvas as unknown as { toDataURL(): string }).toDataURL());
      const onScreen = await dots();
      await page.emulateMedia({ media: "print" });
      expect(await page.evaluate("getComputedStyle(document.body).color")).toBe("rgb(27, 28, 26)");
      expect(await page.evaluate("getComputedStyle(document.documentElement).colorScheme")).toBe("light");
      await expect.poll(dots).not.toBe(onScreen);
      await shot(page, "floor/paper");
    });
  });

  test("in colours of the reader's own it still shows where one is", async () => {
    await signedIn(lead.secret, { forcedColors: "active" }, async ({ page }) => {
      const colours = (which: string) =>
        page.evaluate(`getComputedStyle(document.querySelector(${JSON.stringify(which)})).backgroundColor`);
      await goTo(page, "/jobs");
      for (const list of [".views", ".chips"])
        expect(await colours(`${list} a[aria-current]`)).not.toBe(await colours(`${list} a:not([aria-current])`));
    });
  });

  test("two tabs at once: the one whose cookie the other has exchanged becomes that tenant's page", async () => {
    const other = (await w.tenant("the works next door", { tier: "pro" })).secret;
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    const second = await context.newPage();
    for (const one of [page, second]) await one.goto(`${w.url}/console`);
    for (const [one, secret] of [[page, lead.secret], [second, other]] as const) {
      await one.fill("input[name=key]", secret);
      await one.click("button[type=submit]");
      await one.waitForSelector("nav.views");
      await one.waitForSelector(".live.live");
    } // oxfmt-ignore
    await expect.poll(() => page.locator(".tenant").innerText()).toBe("the works next door");
    expect(await page.locator("nav.views").count()).toBe(1);
    await closeContext(context);
  });

  test("a search for a serial that the cloud didn't answer doesn't say that there is none", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, "/jobs");
      await page.fill("main input[type=search]", "998");
      await page.press("main input[type=search]", "Enter");
      await page.getByText("No job has this serial").waitFor();
      await page.route("**/aidc/jobs?limit=1*", () => {}); // not answered yet
      await page.fill("main input[type=search]", "999");
      await page.press("main input[type=search]", "Enter");
      await expect.poll(() => page.getByText("No job has this serial").count(), { timeout: 5_000 }).toBe(0); // that was said of the one before
      await page.route("**/aidc/jobs?limit=1*", (route) => route.abort());
      await page.press("main input[type=search]", "Enter");
      await page.getByText("The cloud couldn't be reached.").waitFor();
      expect(await page.getByText("No job has this serial").count()).toBe(0);
    });
  });

  test("a filter that nothing fits says so, not that there is nothing", async () => {
    const { id } = (await floor.admin.post("/webhooks", { url: "http://127.0.0.1:1025/none", events: ["print.failed"] })).body;
    await signedIn(lead.secret, {}, async ({ page }) => {
      await goTo(page, "/products");
      await page.fill("main input[type=search]", "no such name");
      await page.press("main input[type=search]", "Enter");
      await expect.poll(() => page.locator("main .empty").innerText()).toBe("No product has this name.");
      await goTo(page, `/webhooks/${id}?status=held`);
      await expect.poll(() => page.locator("main .empty").innerText()).toBe("No delivery is in this state.");
      await goTo(page, "/passports?status=archived");
      await expect.poll(() => page.locator("main .empty").innerText()).toBe("No passport is in this state.");
    });
    const { adminKey } = await printShop(w);
    await signedIn(adminKey, {}, async ({ page }) => {
      await goTo(page, "/jobs");
      await expect.poll(() => page.locator("main .empty").innerText()).toBe("No jobs yet.");
      await goTo(page, "/jobs?state=FAILED");
      await expect.poll(() => page.locator("main .empty").innerText()).toBe("No jobs in this state.");
    });
  });

  test("how long ago something was is told by the cloud's clock, however wrong the screen's is", async () => {
    const shop = await printShop(w);
    await shop.issue();
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    await page.clock.install({ time: Date.now() + 3 * 86_400_000 });
    await page.goto(`${w.url}/console#/jobs`);
    await page.fill("input[name=key]", shop.adminKey);
    await page.click("button[type=submit]");
    await page.waitForSelector("main table time");
    await expect.poll(() => page.locator("main table time").innerText()).not.toMatch(/day/);
    await closeContext(context);
  });

  test("two days less an hour ago isn't called yesterday", async () => {
    const shop = await printShop(w);
    await manyStations(w, shop.tenantId, 2, (n, now) => ({ lastSeenAt: now - (n * 46 + 1) * 3_600_000 }));
    for (const [locale, ...ago] of [
      ["en", "1 day ago", "3 days ago"],
      ["de", "vor 1 Tag", "vor 3 Tagen"],
      ["es", "hace 1 d", "hace 3 d"],
      ["zh-Hans", "1天前", "3天前"],
    ] as const)
      await signedIn(shop.adminKey, { locale }, async ({ page }) => {
        await goTo(page, "/stations");
        await page.waitForSelector(".rows-box .row");
        expect((await page.locator(".rows-box .row time").allInnerTexts()).slice(0, 2)).toEqual(ago);
      });
  });

  test("a dead letter of which a label may exist says so", async () => {
    const shop = await printShop(w);
    await shop.issue({ max_attempts: 1 });
    const claimed = await shop.device.claim();
    await shop.device.upTo(claimed, "SPOOL_SUBMITTED");
    await shop.device.say(claimed, { status: "FAILED", reason: "jam" });
    await expect.poll(async () => (await shop.admin.get(`/aidc/jobs/${claimed.job.job_ref}`)).body.state).toBe("DEAD_LETTER");
    await signedIn(shop.adminKey, {}, async ({ page }) => {
      await goTo(page, "/attention");
      expect(await page.locator("main table").first().innerText()).toMatch(/jam\s*A label may exist/);
      expect(await page.getByText("weren't printed").count()).toBe(0);
    });
  });

  test("a list of stations that isn't whole says so, and goes on", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await page.route("**/devices?limit=200*", (route) => route.continue({ url: route.request().url().replace("limit=200", "limit=2") }));
      await goTo(page, "/stations");
      await page.getByText("Only the first are shown.").waitFor();
      await expect.poll(() => page.getAttribute("[role=table]", "aria-rowcount")).toBe("51");
      await page.click("text=Show more");
      await expect.poll(() => page.getAttribute("[role=table]", "aria-rowcount")).toBe("53");
    });
  });

  test("two taps send a delivery again once", async () => {
    const { id, end } = await refused();
    await signedIn(lead.secret, {}, async ({ page, requests }) => {
      await goTo(page, `/webhooks/${id}`);
      await page.locator("main table button").dblclick();
      await page.waitForSelector("text=Tried again.");
      await page.waitForTimeout(1_000);
      expect(requests.filter((asked) => asked.endsWith("/redeliver")).length).toBe(1);
    });
    end();
  });

  test("Enter that is held down asks once, though the button can be pressed again once that is refused", async () => {
    const { id, end } = await refused();
    await signedIn(lead.secret, {}, async ({ page }) => {
      let asked = 0;
      await page.route("**/redeliver", (route) => {
        asked += 1;
        return route.fulfill({ status: 409, json: { error: { code: "ILLEGAL_TRANSITION", message: "not now" } } });
      });
      await goTo(page, `/webhooks/${id}`);
      await page.locator("main table button").focus();
      await page.keyboard.down("Enter");
      await page.locator("main table [role=status]", { hasText: /./ }).waitFor();
      for (let repeats = 0; repeats < 5; repeats += 1) await page.keyboard.down("Enter");
      await page.waitForTimeout(500);
      expect(asked).toBe(1);
    });
    end();
  });

  test("a list of more pages than a sandbox may ask for at once comes to its end", async () => {
    const strict = await world({ settings: { IMPRIMATUR_RATE_LIMIT: "on" } });
    const shop = await printShop(strict);
    const items = (await shop.allocate(80)).map((serial) => ({ gtin: shop.gtin, serial }));
    await shop.admin.post("/aidc/jobs/batch", { items });
    const { page, context } = await opened(browser, { viewport: PANEL, locale: "en" });
    await page.route("**/aidc/jobs*", (route) => {
      const url = new URL(route.request().url());
      url.searchParams.set("limit", "5");
      return route.continue({ url: url.href });
    });
    await page.goto(`${strict.url}/console#/jobs`);
    await page.fill("input[name=key]", shop.adminKey);
    await page.click("button[type=submit]");
    await page.locator("button.more").waitFor();
    const isTime = Promise.withResolvers<void>();
    await page.route("**/aidc/jobs*", (route) => isTime.promise.then(() => route.fallback()), { times: 1 });
    await page.click("button.more");
    await page.locator("button.more", { hasText: "Loading …" }).waitFor(); // it was heard
    isTime.resolve();
    await page.locator("button.more", { hasText: "Show more" }).waitFor();
    for (let pages = 2; pages < 16; pages += 1) {
      await page.click("button.more");
      await page.waitForTimeout(100);
    }
    await expect.poll(() => page.locator("main tbody tr").count()).toBe(80);
    await closeContext(context);
  });

  test("what was asked and never answered is asked again", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await page.clock.install();
      await page.reload();
      await page.waitForSelector("nav.views");
      let asked = 0;
      await page.route("**/products*", (route) => ((asked += 1) === 1 ? undefined : route.continue()));
      await page.click('nav.views a[href="#/products"]');
      await expect.poll(() => asked).toBe(1);
      await page.clock.fastForward(60_000);
      await page.getByText("can't answer at the moment").waitFor();
      await page.clock.fastForward(10_000);
      await page.waitForSelector("main table");
      expect(asked).toBe(2);
    });
  });

  test("a reload while the cloud is busy asks again who is signed in, and not for the key", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      let asked = 0;
      await page.route("**/console/session", (route) =>
        (asked += 1) === 1 ? route.fulfill({ status: 503, headers: { "retry-after": "1" }, body: "" }) : route.continue(),
      );
      await page.reload();
      await page.waitForSelector("nav.views, input[name=key]");
      expect(await page.locator("input[name=key]").count()).toBe(0);
    });
  });

  test("a tenant of a long name leaves everything at the head in one row, and begins where its name is read", async () => {
    for (const [viewport, name] of [
      [PANEL, "Wasserkocherwerk ".repeat(12)],
      [{ width: 800, height: 480 }, "مصنع الغلايات الكهربائية ".repeat(8)],
    ] as const)
      await signedIn(lead.secret, { viewport }, async ({ page }) => {
        await page.route("**/console/session", async (route) => {
          const response = await route.fetch();
          const session = (await response.json()) as { tenant: object };
          await route.fulfill({ response, json: { ...session, tenant: { ...session.tenant, name, sandbox: true } } });
        });
        await page.reload();
        await page.waitForSelector("nav.views");
        await shot(page, `floor/long-tenant-${viewport.width}`);
        const { height = 0 } = (await page.locator(".top").boundingBox()) ?? {};
        expect([viewport.width, height <= 64, await overflow(page)]).toEqual([viewport.width, true, 0]);
        const isRead = await page.evaluate<boolean>(`(() => {
          const [bdi, box] = [document.querySelector(".tenant bdi"), document.querySelector(".tenant").getBoundingClientRect()];
          const first = document.createRange();
          first.setStart(bdi.firstChild, 0);
          first.setEnd(bdi.firstChild, 1);
          const { left, right } = first.getBoundingClientRect();
          return left >= box.left - 1 && right <= box.right + 1;
        })()`);
        expect([viewport.width, isRead]).toEqual([viewport.width, true]);
      });
  });

  test("a page left open over an upgrade says so, keeps what is typed, and loads itself anew once nobody is at it", async () => {
    for (const locale of LANGUAGES)
      await signedIn(lead.secret, { locale, bypassCSP: true }, async ({ page }) => {
        await goTo(page, "/jobs");
        await page.clock.install();
        await page.route("**/app.js", async (route) => {
          const response = await route.fetch();
          await route.fulfill({ response, body: `${await response.text()}// another`, headers: { "content-type": "text/javascript" } });
        });
        await page.evaluate("globalThis.isOfBefore = true");
        const isOfBefore = () => page.evaluate<boolean>("globalThis.isOfBefore === true");
        const later = async () => {
          await page.clock.fastForward(12 * 60_000);
          await page.waitForTimeout(1_000);
        };
        await page.fill("input[type=search]", "K17");
        await page.evaluate(`document.dispatchEvent(new Event("visibilitychange"))`); // shown again it takes its line up anew, as after a restart
        await page.locator(".upgraded button").waitFor();
        await later();
        expect(await isOfBefore()).toBe(true);
        await shot(page, `floor/updated-${locale}-panel`);
        expect([locale, await axeSays(page)]).toEqual([locale, []]);
        expect([locale, await overflow(page), await cutTexts(page)]).toEqual([locale, 0, []]);
        if (locale !== "en") expect([locale, await englishOn(page)]).toEqual([locale, []]);
        await page.fill("input[type=search]", "");
        await expect.poll(async () => (await later(), isOfBefore())).toBe(false);
        await page.waitForSelector("nav.views");
        expect(await page.locator(".upgraded button").count()).toBe(0);
        expect(new URL(page.url()).hash).toBe("#/jobs");
      });
  });

  test("a session that is over ends the page too, wherever it is, and leaves nothing of the floor behind", async () => {
    await signedIn(lead.secret, {}, async ({ page }) => {
      await page.waitForSelector(".live.live");
      w.later(13 * 3_600_000);
      await page.waitForSelector("input[name=key]");
      expect(await page.locator("nav.views, .flow, .tenant bdi").count()).toBe(0);
    });
  });
});
