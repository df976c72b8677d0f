// The verify button: the evidence and its proof, asked for anew and judged in this browser, and what came of it in words.
import { h, useSignal } from "#shared/web/dom.ts";
import { type Check, judgeBundle, type Jwk, type Outcome } from "#shared/web/proof.ts";
import { isOnItsOwn } from "#shared/web/sha256.ts";
import type { EvidenceBundle, Job } from "#shared/wire/jobs.ts";
import { bytesAt, get } from "../api.ts";
import { words } from "../language.ts";
import { Card, type Tone, toneIcon } from "../parts.ts";

type Verdict = { checks: Check[]; sealed: boolean };
const TONES: Record<Outcome, Tone> = { holds: "good", broken: "bad", unchecked: "calm" };

async function verify(ref: string): Promise<Verdict | undefined> {
  const { data: bundle } = await get<EvidenceBundle>(`/aidc/jobs/${encodeURIComponent(ref)}/evidence`);
  if (!bundle) return undefined;
  const published = await bytesAt("/.well-known/jwks.json");
  const { keys } = published ? (JSON.parse(new TextDecoder().decode(published)) as { keys: Jwk[] }) : { keys: [] };
  const checks = await judgeBundle(bundle, { keys, pictureOf: (sha256) => bytesAt(`/aidc/evidence/${sha256}`) });
  return { checks, sealed: bundle.proof !== null };
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
  const verdict = useSignal<Verdict | undefined>(undefined);
  const state = useSignal<"idle" | "going" | "nothing">("idle");
  const { verify: texts } = words();
  async function go(): Promise<void> {
    state.value = "going";
    verdict.value = await verify(of.job_ref);
    state.value = verdict.value ? "idle" : "nothing";
  }
  const said = verdict.value && sentenceOf(verdict.value);
  return h(
    Card,
    { title: texts.title, class: "proof" },
    h("p", { class: "quiet" }, texts.lead),
    h(
      "button",
      { type: "button", class: "primary", disabled: state.value === "going", onClick: () => void go() },
      state.value === "going" ? texts.going : texts.go,
    ),
    h(
      "div",
      { role: "status" },
      state.value === "nothing" && h("p", { class: "notice" }, texts.nobody),
      said && h("p", { class: `verdict ${said.tone}` }, toneIcon(said.tone), h("strong", null, said.text)),
      verdict.value &&
        h(
          "ul",
          { class: "checks" },
          verdict.value.checks.map((check) => h(Line, { key: check.name, check })),
        ),
      verdict.value && isOnItsOwn() && h("p", { class: "notice warn" }, texts.insecure),
    ),
  );
}
