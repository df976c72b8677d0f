// What both consoles are looked at with: axe, a measure for each way in which a page can go wrong on a small screen, and pictures for people.
import { fileURLToPath } from "node:url";
import axe from "axe-core";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import { browserPath } from "../../fixtures/browser.ts";

export const executable = await browserPath();
if (!executable)
  process.stdout.write("skipped: the browser tests need Chromium or Chrome, and this machine has none (apt-get install chromium)\n");

export const LANGUAGES = ["en", "de", "es", "zh-Hans"] as const;
export const PANEL = { width: 1024, height: 600 };
export const PHONE = { width: 375, height: 740 };

/** Git ignores where they go. */
const PICTURES = fileURLToPath(new URL("../../.screenshots/", import.meta.url));
export const shot = (page: Page, name: string, fullPage = false) => page.screenshot({ path: `${PICTURES}${name}.png`, fullPage });

export type Seen = { page: Page; context: BrowserContext; requests: string[]; complaints: string[] };
/** A page in a context of its own, with all that it will ask for and complain of. */
export async function opened(browser: Browser, options: BrowserContextOptions): Promise<Seen> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const [requests, complaints]: [string[], string[]] = [[], []];
  page.on("request", (request) => requests.push(request.url()));
  page.on("console", (message) => complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  return { page, context, requests, complaints };
}

export async function axeSays(page: Page): Promise<unknown[]> {
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axe.source); // views change within one document
  const { violations, passes } = await page.evaluate<Record<"violations" | "passes", { id: string; nodes: { html: string }[] }[]>>(
    `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })`,
  );
  expect(passes.map(({ id }) => id)).toContain("color-contrast"); // it did look
  return violations.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]);
}
export const overflow = (page: Page) => page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
/** Texts that run out of their box, where that isn't meant. */
export const cutTexts = (page: Page) =>
  page.evaluate<string[]>(
    `[...document.querySelectorAll("button, a, dt, dd, strong, .step, .banner span, h1, h2, p")].filter((one) => !one.closest(".hidden, .skip") && getComputedStyle(one).position !== "absolute" && getComputedStyle(one).textOverflow !== "ellipsis" && one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1).map((one) => one.className + ": " + one.textContent)`,
  );
/** What an input asks for and has no room to say. */
export const cutPlaceholders = (page: Page) =>
  page.evaluate<string[]>(`(() => {
    const pen = document.createElement("canvas").getContext("2d");
    return [...document.querySelectorAll("input[placeholder]")].filter((one) => {
      const { font, paddingLeft, paddingRight } = getComputedStyle(one);
      pen.font = font;
      return one.clientWidth > 0 && pen.measureText(one.placeholder).width > one.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight);
    }).map((one) => one.placeholder);
  })()`);
/** What a finger, or a glove, has to hit: links within a text aside, where those are told apart. */
export const smallTargets = (page: Page, what: string, leastPx: number) =>
  page.evaluate<string[]>(
    `[...document.querySelectorAll(${JSON.stringify(what)})].map((one) => [one, one.getBoundingClientRect()]).filter(([, box]) => box.width > 0 && (box.width < ${leastPx - 0.5} || box.height < ${leastPx - 0.5})).map(([one, box]) => one.textContent + " " + box.width + "x" + box.height)`,
  );
/** What is read, seen or heard on the page and has an English word in it; names, codes and quotations are as they are. */
export const englishOn = (page: Page) =>
  page.evaluate<string[]>(`(() => {
    const english = /\\b(the|it|its|of|and|this|that|from|which|with|isn't|doesn't|must|waits|labels)\\b/i;
    const theirs = "[lang=en], q, bdi, pre, code, .code, option, script, style, noscript";
    const said = [...document.querySelectorAll("body *")].filter((one) => !one.closest(theirs)).flatMap((one) => [
      ...[...one.childNodes].filter(({ nodeType }) => nodeType === 3).map(({ data }) => data),
      ...["title", "aria-label", "alt", "placeholder"].map((name) => one.getAttribute(name) ?? ""),
    ]);
    return [document.title, ...said].filter((text) => english.test(text));
  })()`);
/** Where cookies are blocked, Chromium refuses a page even the question what it has kept; in an app's frame on a tablet there is often no place to keep it in. */
export const keepsNothing = (page: Page, how: "refused" | "nowhere" = "refused") =>
  page.addInitScript(`for (const name of ["localStorage", "sessionStorage"])
    Object.defineProperty(globalThis, name, { get: () => {
      if (${how === "nowhere"}) return null;
      throw new DOMException("Access is denied for this document.", "SecurityError");
    } })`);
