// The verify button: the evidence and its proof, asked for anew and judged in this browser, and what came of it in words.
import { h } from "#shared/web/dom.ts";
import { type Check, judgeBundle, type Jwk, type Outcome } from "#shared/web/proof.ts";
import { isOnItsOwn } from "#shared/web/sha256.ts";
import type { EvidenceBundle, Job } from "#shared/wire/jobs.ts";
import { type Answer, bytesAt, get } from "../api.ts";
import { words } from "../language.ts";
import { Card, type Tone, toneIcon, useAsking, Why } from "../parts.ts";

type Verdict = { checks: Check[]; sealed: boolean };
const TONES: Record<Outcome, Tone> = { holds: "good", broken: "bad", unchecked: "calm" };

/** Without evidence or keys there is nothing to judge, and no word against the evidence. */
async function verify(ref: string): Promise<Answer<Verdict>> {
  const evidence = await get<EvidenceBundle>(`/aidc/jobs/${encodeURIComponent(ref)}/evidence`);
  if (evidence.refused) return evidence;
  const published = await get<{ keys: Jwk[] }>("/.well-known/jwks.json");
  if (published.refused) return published;
  const { keys } = published.data;
  const checks = await judgeBundle(evidence.data, { keys, pictureOf: (sha256) => bytesAt(`/aidc/evidence/${sha256}`) });
  return { data: { checks, sealed: evidence.data.proof !== null } };
}

function sentenceOf({ checks, sealed }: Verdict): { text: string; tone: Tone } {
  const { verify: texts } = words();
  if (checks.some(({ outcome }) => outcome === "broken")) return { text: texts.broken, tone: "bad" };
  if (!sealed) return { text: texts.unsealed, tone: "calm" };
  const open = checks.some(({ name, outcome }) => outcome === "unchecked" && name !== "pictures");
  return open ? { text: texts.partly, tone: "warn" } : { text: texts.holds, tone: "good" };
}

const Line = ({ check: { name, outcome } }: { check: Check }) => {
  const { checks, outcome: outcomes } = words().verify;
  return h(
    "li",
    { class: `tone-${TONES[outcome]}` },
    toneIcon(TONES[outcome]),
    h("span", null, h("strong", null, outcomes[outcome]), ": ", checks[name][outcome]),
  );
};

export function Proof({ of }: { of: Job }) {
  const { verify: texts } = words();
  const { data, refused, button } = useAsking(() => verify(of.job_ref), texts.go, texts.going);
  const verdict = of.state === "SEALED" && data?.sealed === false ? undefined : data; // it was sealed since
  const said = verdict && sentenceOf(verdict);
  return h(
    Card,
    { title: texts.title, class: "proof" },
    h("p", { class: "quiet" }, texts.lead),
    button,
    h(
      "div",
      { role: "status" },
      refused && h("p", { class: "notice" }, refused.fault === "absent" ? texts.nobody : h(Why, { refused })),
      said && h("p", { class: `verdict ${said.tone}` }, toneIcon(said.tone), h("strong", null, said.text)),
      verdict &&
        h(
          "ul",
          { class: "checks" },
          verdict.checks.map((check) => h(Line, { key: check.name, check })),
        ),
      verdict && isOnItsOwn() && h("p", { class: "notice warn" }, texts.insecure),
    ),
  );
}
