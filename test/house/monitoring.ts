// The alert rules and the dashboard as they stand in their files, for the README's table and for the test that holds them against /metrics.
import { readFileSync } from "node:fs";

export const ALERTS_FILE = "cloud/monitoring/alerts.yaml";
export type Alert = { name: string; expr: string; summary: string; todo: string };

/** A YAML scalar on one line, in whichever of its three spellings. */
function unquoted(text: string): string {
  if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
  return text.startsWith('"') ? (JSON.parse(text) as string) : text;
}
const RULE =
  /- alert: (\w+)\n +expr: (.+)\n +for: \w+\n +labels:\n +severity: (?:critical|warning)\n +annotations:\n +summary: (.+)\n +do: (.+)\n/g;

export function alerts(): Alert[] {
  const text = readFileSync(ALERTS_FILE, "utf8");
  const found = [...text.matchAll(RULE)].map(([, name = "", expr = "", summary = "", todo = ""]) => ({
    name,
    expr: unquoted(expr),
    summary: unquoted(summary),
    todo: unquoted(todo),
  }));
  const named = text.match(/- alert:/g)?.length ?? 0;
  if (found.length !== named) throw new Error(`${ALERTS_FILE}: ${named - found.length} rules aren't written like the others`);
  return found;
}

type Dashboard = { panels: { title: string; targets: { expr: string }[] }[] };
export const panels = (): Dashboard["panels"] => (JSON.parse(readFileSync("cloud/monitoring/dashboard.json", "utf8")) as Dashboard).panels;
