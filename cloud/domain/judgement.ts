// Fail-closed judgement: one product's facts against one pack, rule by rule. No clock, no store: the same facts and pack give the same bytes.
import { digestOf } from "#shared/canonical.ts";
import { type ComplianceStatus, type Outcome, severities } from "#shared/compliance.ts";
import { limits } from "#shared/limits.ts";
import type { Evaluation, Finding } from "#shared/wire/compliance.ts";
import type { Rule } from "../pack-rule.ts";

/** What rules look at; without a passport there is no such member. */
export type Facts = { product: Record<string, unknown>; extensions: Record<string, unknown>; passport?: Record<string, unknown> };
type Looked = Finding["evidence"]["fields"][number];
export type Judgement = Pick<Evaluation, "score" | "status" | "findings">;
type OnFault = (obligationId: string, error: unknown) => void;

function valueAt(facts: Facts, pointer: string): unknown {
  let value: unknown = facts;
  for (const name of pointer.split("/").slice(1)) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Facts["product"])[name];
  }
  return value;
}
const isAbsent = (facts: Facts, pointer: string) => (valueAt(facts, pointer) ?? null) === null;

function lookedAt(facts: Facts, field: string): Looked {
  if (isAbsent(facts, field)) return { field, present: false };
  const value = valueAt(facts, field);
  return JSON.stringify(value).length <= limits.EVIDENCE_VALUE_MAX_LENGTH
    ? { field, present: true, value }
    : { field, present: true, digest: digestOf(value) };
}

/** What is absent is asked for before the rule is; what is there but doesn't decide is never taken for met. */
function outcomeOf({ obligationId, evidence, tests }: Rule, facts: Facts, onFault: OnFault): Outcome {
  try {
    const { applies, requires, conclusive } = tests();
    if (!applies(facts)) return "not_applicable";
    if (evidence.some((pointer) => isAbsent(facts, pointer))) return "not_evaluated";
    if (!requires(facts)) return "violated";
    return conclusive(facts) ? "met" : "unknown";
  } catch (error) {
    onFault(obligationId, error);
    return "unknown";
  }
}

const spoken = (pointers: string[]) => pointers.map((pointer) => pointer.slice(1).replaceAll("/", ".")).join(", ");
const messages: Record<Outcome, (rule: Rule, missing: string[]) => string> = {
  met: ({ title }) => `Met: ${title}.`,
  violated: ({ title, remedy }) => `Violated: ${title}, and it isn't so. ${remedy}`,
  not_evaluated: ({ title, remedy }, missing) => `Not evaluated: ${title}? Missing: ${spoken(missing)}. ${remedy}`,
  unknown: ({ title, remedy }) => `Unknown: ${title}? What is known doesn't decide it. ${remedy}`,
  not_applicable: ({ title }) => `Not applicable: ${title}. It doesn't concern this product as it is.`,
};

function findingOf(rule: Rule, facts: Facts, look: (field: string) => Looked, onFault: OnFault): Finding {
  const { obligationId, title, article, text, severity, remedy, evidence, looksAt } = rule;
  const outcome = outcomeOf(rule, facts, onFault);
  const missing = outcome === "not_applicable" ? [] : evidence.filter((pointer) => isAbsent(facts, pointer));
  const fields = outcome === "not_applicable" ? looksAt.applies : looksAt.all;
  return {
    obligationId,
    title,
    article,
    text,
    outcome,
    severity,
    message: messages[outcome](rule, missing),
    evidence: { fields: fields.map(look), missing, satisfiedBy: remedy },
  };
}

const weightOf = (findings: Finding[]) => findings.reduce((sum, { severity }) => sum + severities[severity].weight, 0);

/** In this order, so that no status gets better by leaving evidence out. */
function statusOf(applicable: Finding[]): ComplianceStatus {
  const some = (outcome: Outcome) => applicable.some((finding) => finding.outcome === outcome);
  if (applicable.some(({ outcome, severity }) => outcome === "violated" && severities[severity].forbids)) return "NonCompliant";
  if (some("unknown")) return "Unknown";
  if (applicable.length === 0 || some("not_evaluated")) return "Indeterminate";
  return some("violated") ? "PartiallyCompliant" : "FullyCompliant";
}

export function judge({ rules }: { rules: readonly Rule[] }, facts: Facts, onFault: OnFault): Judgement {
  const seen = new Map<string, Looked>(); // rules look at the same fields again and again
  const look = (field: string): Looked => {
    const looked = seen.get(field) ?? lookedAt(facts, field);
    seen.set(field, looked);
    return looked;
  };
  const findings = rules.map((rule) => findingOf(rule, facts, look, onFault));
  if (Object.keys(facts.extensions).length === 0) return { score: 0, status: "Indeterminate", findings };
  const applicable = findings.filter(({ outcome }) => outcome !== "not_applicable");
  const met = weightOf(applicable.filter(({ outcome }) => outcome === "met"));
  // Rounded down: a hundred is said only where nothing is left.
  const score = applicable.length === 0 ? 0 : Math.floor((100 * met) / weightOf(applicable));
  return { score, status: statusOf(applicable), findings };
}
