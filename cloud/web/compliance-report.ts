// An evaluation as a page to read and to print: one file, no script, nothing loaded from anywhere.
import { hash } from "node:crypto";
import { type ComplianceStatus, type Outcome, outcomes, sectors, severities, statuses } from "#shared/compliance.ts";
import type { Evaluation, Finding } from "#shared/wire/compliance.ts";
import { escaped } from "./html.ts";

const STYLE = `
:root { --ink: #1a1d21; --soft: #5b6470; --line: #d9dee4; --good: #14683a; --warn: #8a5300; --bad: #a4161a; --none: #4a5560; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 2.5rem 1.5rem; color: var(--ink); background: #fff; font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
header { border-bottom: 3px solid var(--ink); padding-bottom: 1rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .2rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
h2 small { font-weight: 400; color: var(--soft); }
h3 { font-size: 1rem; margin: 0; }
p { margin: .3rem 0; }
.kind { color: var(--soft); text-transform: uppercase; letter-spacing: .06em; font-size: .8rem; margin: 0; }
.verdict { display: flex; gap: 1.5rem; align-items: center; margin: 1.5rem 0; padding: 1rem 1.25rem; border: 1px solid var(--line); border-left: 6px solid currentColor; }
.verdict strong { font-size: 1.35rem; white-space: nowrap; }
.verdict .score { font-size: 2.1rem; font-weight: 700; line-height: 1; white-space: nowrap; }
.verdict .score small { font-size: .9rem; font-weight: 400; }
.verdict p { color: var(--ink); margin: .1rem 0 0; }
.met, .FullyCompliant { color: var(--good); }
.violated, .NonCompliant { color: var(--bad); }
.unknown, .not_evaluated, .PartiallyCompliant, .Unknown, .Indeterminate { color: var(--warn); }
.not_applicable { color: var(--none); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 1rem 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: .86em/1.4 ui-monospace, "Cascadia Mono", "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
table { width: 100%; border-collapse: collapse; margin: .25rem 0; }
.counts, .fields { table-layout: fixed; }
.counts td, .counts th { border: 1px solid var(--line); padding: .35rem .5rem; text-align: center; width: 20%; }
.counts td { font-size: 1.2rem; font-weight: 700; }
.counts th { font-weight: 400; font-size: .85rem; }
article { border: 1px solid var(--line); border-left: 6px solid currentColor; padding: .7rem 1rem; margin: .6rem 0; break-inside: avoid; }
article > * { color: var(--ink); }
article .head { display: flex; justify-content: space-between; gap: 1rem; }
article .tag { color: var(--soft); font-size: .85rem; }
.head .tag { white-space: nowrap; }
article .fields { font-size: .88rem; margin: .4rem 0 0; }
.fields th, .fields td { text-align: left; vertical-align: top; padding: .12rem .75rem .12rem 0; border-top: 1px solid var(--line); font-weight: 400; }
.fields th { width: 45%; }
.absent { color: var(--warn); font-style: italic; }
.brief { columns: 2; padding-left: 1.1rem; font-size: .88rem; }
footer { margin-top: 2.5rem; padding-top: .75rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .85rem; }
@media (max-width: 40rem) { body { padding: 1.5rem .75rem; } .counts td, .counts th { padding: .35rem .1rem; } .counts th { font-size: .7rem; } .verdict { flex-wrap: wrap; } .brief { columns: 1; } }
@media print {
  @page { margin: 16mm 14mm; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  h2 { break-after: avoid; }
  .verdict, article { print-color-adjust: exact; }
}
`;
export const REPORT_CSP = `default-src 'none'; style-src 'sha256-${hash("sha256", STYLE, "base64")}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

const text = (value: unknown) => escaped(String(value));

const SHOWN: Record<Outcome, string> = {
  violated: "Violated",
  unknown: "Unknown",
  not_evaluated: "Not evaluated",
  met: "Met",
  not_applicable: "Not applicable",
};
const STATUS: Record<ComplianceStatus, string> = {
  FullyCompliant: "Fully compliant",
  PartiallyCompliant: "Partially compliant",
  NonCompliant: "Non-compliant",
  Indeterminate: "Indeterminate",
  Unknown: "Unknown",
};
/** What asks for action comes first. */
const ORDER = Object.keys(SHOWN) as Outcome[];

type Field = Finding["evidence"]["fields"][number];
const fieldRow = ({ field, present, value, digest }: Field) => {
  const shown = digest === undefined ? JSON.stringify(value) : `(too long to show) SHA-256 ${digest}`;
  return `<tr><th scope="row"><code>${text(field)}</code></th><td>${present ? `<code>${text(shown)}</code>` : '<span class="absent">absent</span>'}</td></tr>`;
};

const findingCard = ({ obligationId, title, article, text: law, outcome, severity, evidence }: Finding) => `
<article class="${outcome}">
  <div class="head"><h3>${text(title)}</h3><span class="tag">${text(severity)}</span></div>
  <p class="tag"><code>${text(obligationId)}</code> · ${text(article)}</p>
  <p>${text(law)}</p>
  ${outcome === "met" ? "" : `<p><b>What would satisfy it:</b> ${text(evidence.satisfiedBy)}</p>`}
  <table class="fields">${evidence.fields.map(fieldRow).join("")}</table>
</article>`;

const brief = (findings: Finding[]) =>
  `<ul class="brief">${findings.map(({ title, obligationId }) => `<li>${text(title)} <code>${text(obligationId)}</code></li>`).join("")}</ul>`;

function section(outcome: Outcome, all: Finding[]): string {
  const findings = all.filter((finding) => finding.outcome === outcome);
  if (findings.length === 0) return "";
  const body = outcome === "not_applicable" ? brief(findings) : findings.map(findingCard).join("");
  return `<section><h2 class="${outcome}">${SHOWN[outcome]} (${findings.length}) <small>${text(outcomes[outcome])}</small></h2>${body}</section>`;
}

export function reportOf(evaluation: Evaluation): string {
  const { productId, productName, gtin, productVersion, passport, sector, pack, score, status, findings, evaluatedAt } = evaluation;
  const countOf = (outcome: Outcome) => findings.filter((finding) => finding.outcome === outcome).length;
  const facts: [string, string][] = [
    ["Product", `${productId}, version ${productVersion}`],
    ["Passport", passport ? `${passport.id}, version ${passport.version ?? "none yet"}` : "none that these rules looked at"],
    ["Pack digest", `SHA-256 ${pack.digest}`],
    ["Evaluated at", evaluatedAt],
  ];
  const severityNote = Object.entries(severities)
    .map(([name, { weight, says }]) => `${name} (weight ${weight}): ${says}`)
    .join("; ");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${text(productName)}: ${text(sectors[sector])}</title>
<style>${STYLE}</style>
</head>
<body>
<header>
<p class="kind">Compliance evaluation · ${text(sectors[sector])}</p>
<h1>${text(productName)}</h1>
<p>GTIN ${text(gtin)}, evaluated on ${text(evaluatedAt.slice(0, 10))} by CELEX ${text(pack.celexId)}, version ${text(pack.version)}</p>
</header>
<main>
<div class="verdict ${status}"><span class="score">${score}<small> / 100</small></span><div><strong>${text(STATUS[status])}</strong><p>${text(statuses[status])}</p></div></div>
<table class="counts"><thead><tr>${ORDER.map((outcome) => `<th scope="col" class="${outcome}">${SHOWN[outcome]}</th>`).join("")}</tr></thead>
<tbody><tr>${ORDER.map((outcome) => `<td class="${outcome}">${countOf(outcome)}</td>`).join("")}</tr></tbody></table>
<dl>${facts.map(([name, value]) => `<dt>${text(name)}</dt><dd>${text(value)}</dd>`).join("")}</dl>
${ORDER.map((outcome) => section(outcome, findings)).join("")}
</main>
<footer>
<p>The score is the weight of what is met in the weight of what applies, rounded down. Severities: ${text(severityNote)}.</p>
<p>This report paraphrases the law and judges what was declared. It is no legal advice and no declaration of conformity.</p>
</footer>
</body>
</html>
`;
}
