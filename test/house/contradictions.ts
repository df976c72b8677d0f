// Which obligations no known product can meet, alone or together with the others of its pack: a pack that contradicts itself is found by this.
import type { Pack } from "../../cloud/packs.ts";
import { type Facts, judge } from "../../cloud/domain/judgement.ts";

const fail = (obligationId: string, error: unknown): never => {
  throw new Error(`${obligationId} can't be run`, { cause: error });
};

export function contradictions(packs: readonly Pack[], products: readonly Facts[]): string[] {
  return packs.flatMap((pack) => {
    const judged = products.map((facts) => ({ category: facts.product["category"], ...judge(pack, facts, fail) }));
    const outcomes = judged.flatMap(({ findings }) => findings);
    const never = pack.rules
      .filter(({ obligationId }) => !outcomes.some((finding) => finding.obligationId === obligationId && finding.outcome === "met"))
      .map(({ obligationId }) => `${pack.file}: no product meets ${obligationId}`);
    const concerned = judged.filter(({ findings }) => findings.some(({ outcome }) => outcome !== "not_applicable"));
    const together = [...Map.groupBy(concerned, ({ category }) => category)]
      .filter(([, ofCategory]) => !ofCategory.some(({ status }) => status === "FullyCompliant"))
      .map(([category]) => `${pack.file}: no product of the category ${String(category)} meets all that applies to it`);
    return [...never, ...together];
  });
}
