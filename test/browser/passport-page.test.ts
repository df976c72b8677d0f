// The public page in a real browser, as somebody who has just scanned a label sees it: on a phone, in their language, by day and by night.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Browser, BrowserContextOptions } from "playwright-core";
import { closeContext, openBrowser } from "../../fixtures/browser.ts";
import { stationOf } from "../../fixtures/print-shop.ts";
import { allocate, publishing } from "../../fixtures/publishing.ts";
import { world } from "../world.ts";
import { LANGUAGES } from "../../cloud/web/words/index.ts";
import { axeSays, englishOn, executable, opened, overflow, PHONE, type Seen, shot } from "./eyes.ts";

describe.skipIf(!executable)("in a browser", async () => {
  const w = await world();
  const { published, publish } = publishing(w, 800_000);
  let browser: Browser;
  beforeAll(async () => {
    browser = await openBrowser(executable ?? "");
  });
  afterAll(() => browser?.close());

  const description = "An electric kettle of 1.7 litres, brushed steel, with a base that turns all the way round.";
  const kettle = await published({
    name: "Kettle 1.7 “Aurora” — brushed steel",
    description,
    extensions: {
      energyEfficiencyClass: "B",
      annualEnergyConsumptionKwh: 42.5,
      repairabilityScore: 7.5,
      sparePartsAvailabilityYears: 10,
      hazardousSubstances: [{ name: "Lead", casNumber: "7439-92-1", concentrationPercentage: 0.05, location: "solder" }, "Bisphenol A"],
      recycledContentPercentage: 30,
      productLifetimeYears: 8,
      weeeCategory: "small_equipment",
    },
  });
  await w.admin.post(`/passports/${kettle.passportId}/validations`);
  await allocate(w, kettle, ["4711"]);
  await w.admin.post("/aidc/jobs", { gtin: kettle.gtin, serial: "4711" });
  const { key } = (await w.admin.post("/devices", { name: "line 1", capabilities: ["qr"] })).body;
  const station = stationOf(w.as(key.secret));
  const { updated_at: sealedAt } = (await station.seal(await station.claim({ needs: ["qr"] }))).body as { updated_at: string };
  const shirt = await published({
    name: "<script>alert(1)</script> \u200fقميص 👕 <b>&amp;",
    description: `"><img src=x onerror=alert(1)> ${"Wollpullover".repeat(20)}`,
    category: "textile",
    granularity: "item",
    serialNumber: "!\"%&'()*+,-./:;<=>?_",
    extensions: {
      fibreComposition: [
        { fibre: "organic cotton", percentage: 82.5 },
        { fibre: "polyester", percentage: 17.5, recycled: true },
      ],
      careInstructions: "Wash at 30 °C.\nDon't tumble dry.",
      countryOfManufacture: "PT",
      durabilityWashCycles: 60,
      recyclabilityPercentage: 95,
      carbonFootprintKgCo2e: 4.2,
      certifications: ["GOTS <7.0>", "OEKO-TEX Standard 100"],
      animalOriginParts: false,
    },
  });
  const cells = await published({ name: "ACME T7" }, "draft"); // batteries aren't judged here, but may be told of
  const characteristics = {
    manufacturerIdentification: "ACME Cells, 1 Works Road, Leeds",
    manufacturingDate: "2026-03-01",
    batteryCategory: "starting_lighting_ignition",
    batteryStatus: "remanufactured",
    batteryWeightKg: 18.4,
    criticalRawMaterials: [],
    carbonFootprintKgCo2ePerKwh: 61.5,
    carbonFootprintPerformanceClass: "B",
    recycledLeadPercentage: 85,
    ratedCapacityAh: 74,
    nominalVoltageV: 12,
    expectedLifetimeCycles: 1_000,
    capacityThresholdForExhaustionPercentage: 80,
    idleTemperatureMinimumC: -30,
    initialRoundTripEfficiencyPercentage: 92.5,
    internalResistanceOhm: 0.0042,
    warrantyPeriodMonths: 24,
    wasteInformationUrl: "https://acme.example/bring-back",
  };
  expect((await w.admin.patch(`/passports/${cells.passportId}`, { content: { product: { characteristics } } })).status).toBe(200);
  expect((await publish(cells.id)).status).toBe(200);
  const long = await published({ name: "Betriebswerkbauunterbeamtengesellschaft".repeat(5) }, "draft");
  const LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk".repeat(5);
  const provenance = [{ name: LONG, massFraction: 0.5 }, { name: "بوليمر (XL)", massFraction: 0.25, hazardous: true }]; // oxfmt-ignore
  const content = {
    product: { characteristics: { [LONG.slice(0, 100)]: `https://example.com/${LONG}`, carbonFootprint: 1e21, note: LONG } },
    materialsProvenance: provenance,
  };
  expect((await w.admin.patch(`/passports/${long.passportId}`, { content })).status).toBe(200);
  expect((await publish(long.id)).status).toBe(200);
  await allocate(w, kettle, ["4712"], undefined, { voidedAt: 1 });

  const pages = {
    kettle: `/01/${kettle.gtin}/21/4711`,
    shirt: `/p/${shirt.id}`,
    cells: `/p/${cells.id}`,
    long: `/p/${long.id}`,
    linkset: `/01/${kettle.gtin}?linkType=linkset`,
    voided: `/01/${kettle.gtin}/21/4712`,
    unknown: "/p/nothing",
  };

  async function visit(path: string, options: BrowserContextOptions, look: (seen: Seen) => Promise<void>) {
    const seen = await opened(browser, { viewport: PHONE, deviceScaleFactor: 2, ...options });
    const { page, context, complaints } = seen;
    page.on("dialog", (dialog) => void complaints.push(`a dialog: ${dialog.message()}`));
    await page.goto(w.url + path);
    try {
      await look(seen);
    } finally {
      await closeContext(context);
    }
  }

  const looks = LANGUAGES.flatMap((locale) =>
    (locale === "en" || locale === "de" ? (["light", "dark"] as const) : (["light"] as const)).flatMap((colorScheme) =>
      Object.entries(pages).map(([name, path]) => ({ name, path, locale, colorScheme })),
    ),
  );

  test.each(looks)(
    "$name in $locale, $colorScheme: nothing for axe to find, nothing runs off the side",
    async ({ name, path, locale, colorScheme }) => {
      await visit(path, { locale, colorScheme, bypassCSP: true }, async ({ page }) => {
        expect(await axeSays(page)).toEqual([]);
        expect(await overflow(page)).toBe(0);
        expect(await page.getAttribute("html", "lang")).toBe(locale);
        if (locale !== "en") expect((await englishOn(page)).filter((text) => text !== description)).toEqual([]);
        await shot(page, `passport/${name}-${locale}-${colorScheme}`, true);
      });
    },
  );

  test.each(Object.entries(pages))("%s asks nobody for anything, runs nothing and complains of nothing", async (name, path) => {
    await visit(path, {}, async ({ page, requests, complaints }) => {
      expect(requests.filter((url) => !url.startsWith(w.url) && !url.startsWith("data:"))).toEqual([]);
      expect(requests.length).toBeLessThanOrEqual(2); // the link and the page
      expect(complaints.filter((text) => !/the server responded with a status of (404|410)/.test(text))).toEqual([]);
      const styled = await page.evaluate<string>("getComputedStyle(document.body).maxWidth");
      expect([name, styled]).toEqual([name, expect.stringMatching(/^\d+px$/)]); // its style is let through by the policy
    });
  });

  test("a compliance report zoomed to 400 % runs off nowhere", async () => {
    const extraHTTPHeaders = { authorization: `Bearer ${w.adminKey}` };
    const path = `/api/v2/products/${long.id}/compliance/espr/report`;
    await visit(path, { viewport: { width: 320, height: 256 }, extraHTTPHeaders, bypassCSP: true }, async ({ page }) => {
      expect(await page.locator("article").count()).toBeGreaterThan(0);
      expect([await axeSays(page), await overflow(page)]).toEqual([[], 0]);
      await shot(page, "passport/compliance-report", true);
    });
  });

  test("the documentation says whose it is, and leads nowhere else", async () => {
    await visit("/docs", { viewport: { width: 320, height: 600 } }, async ({ page, requests, complaints }) => {
      const shed = /status of 503/;
      let again = 0;
      const told = async () => {
        const times = complaints.filter((text) => shed.test(text)).length;
        if (times > again) await page.reload(); // the machine was too busy for a megabyte of document
        again = times;
        return page.locator("body").innerText();
      };
      await expect.poll(told, { interval: 1_000, timeout: 90_000 }).toContain("/api/v2/tenants");
      expect(await page.title()).toBe("API · Imprimatur");
      const hrefs = await page.locator("a[href]").evaluateAll((all) => all.map((one) => (one as unknown as { href: string }).href));
      expect(hrefs.filter((href) => !href.startsWith(w.url))).toEqual([]);
      expect(await page.locator("img:not([alt]), input:not([aria-label])").count()).toBe(0);
      expect(requests.filter((url) => !url.startsWith(w.url) && !url.startsWith("data:"))).toEqual([]);
      expect(complaints.filter((text) => !shed.test(text))).toEqual([]);
      expect(await overflow(page)).toBe(0);
      await shot(page, "passport/docs");
    });
  });

  test("without JavaScript it is the same page", async () => {
    const text = async (javaScriptEnabled: boolean) => {
      let seen = "";
      await visit(pages.kettle, { javaScriptEnabled }, async ({ page }) => {
        seen = await page.locator("body").innerText();
      });
      return seen;
    };
    const without = await text(false);
    expect(without).toBe(await text(true));
    expect(without).toContain("4711");
    expect(without).toContain(`sealed on ${new Date(sealedAt).toLocaleDateString("en", { dateStyle: "long", timeZone: "UTC" })}`);
  });

  test("what a product is called is text, whatever it looks like", async () => {
    await visit(pages.shirt, {}, async ({ page, complaints }) => {
      expect(await page.locator("h1").innerText()).toContain("<script>alert(1)</script>");
      expect(await page.locator("img, script:not([type='application/ld+json'])").count()).toBe(0);
      const data = JSON.parse((await page.locator("script").textContent()) ?? "");
      expect(data).toMatchObject({ "@type": "Product", gtin14: shirt.gtin, serialNumber: shirt.serialNumber });
      expect(complaints).toEqual([]);
    });
  });

  test("printed it is black on white, all of it", async () => {
    await visit(pages.kettle, { colorScheme: "dark" }, async ({ page }) => {
      await page.emulateMedia({ media: "print", colorScheme: "dark" });
      expect(await page.evaluate("getComputedStyle(document.documentElement).backgroundColor")).toBe("rgb(255, 255, 255)");
      expect(await page.evaluate("getComputedStyle(document.documentElement).color")).toBe("rgb(0, 0, 0)");
      await shot(page, "passport/kettle-printed", true);
    });
  });
});
