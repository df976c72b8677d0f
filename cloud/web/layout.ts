// The one frame of all public pages: one style, no script, nothing from anywhere else.
import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { type Html, html } from "./html.ts";

const css = readFileSync(new URL("page.css", import.meta.url), "utf8");
const style: Html = { html: `<style>${css}</style>` };

export const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": [
    "default-src 'none'",
    `style-src 'sha256-${hash("sha256", css, "base64")}'`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join(";"),
} as const;

type Page = { language: string; title: string; head?: Html; body: Html };

export const page = ({ language, title, head, body }: Page): string =>
  html`<!doctype html>
    <html lang="${language}">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="referrer" content="no-referrer" />
        <title>${title}</title>
        <link rel="icon" href="data:," />
        ${style} ${head}
      </head>
      <body>
        ${body}
      </body>
    </html> `.html;
