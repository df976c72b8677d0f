// npm run bench: every figure that the README claims, as ratios within this run; exit 1 if one misses its target. With --brief, only whether each runs.
import { nearest } from "#shared/nearest.ts";
import { endWhenTold } from "../../fixtures/with-us.ts";
import { capacityBench } from "./capacity.bench.ts";
import { complianceBench } from "./compliance.bench.ts";
import { consoleBench } from "./console.bench.ts";
import { httpBench } from "./http.bench.ts";
import { logBench } from "./log.bench.ts";
import { BRIEF, type Line } from "./measure.ts";
import { passportsBench } from "./passports.bench.ts";
import { peersBench } from "./peers.bench.ts";
import { printBench } from "./print.bench.ts";
import { productsBench } from "./products.bench.ts";
import { resolveBench } from "./resolve.bench.ts";
import { startBench } from "./start.bench.ts";
import { stationBench } from "./station.bench.ts";
import { storeBench } from "./store.bench.ts";
import { summaryBench } from "./summary.bench.ts";
import { webhooksBench } from "./webhooks.bench.ts";

const benches: Record<string, () => Promise<Line[]>> = {
  store: storeBench,
  http: httpBench,
  products: productsBench,
  passports: passportsBench,
  print: printBench,
  peers: peersBench,
  capacity: capacityBench,
  log: logBench,
  webhooks: webhooksBench,
  resolve: resolveBench,
  summary: summaryBench,
  console: consoleBench,
  compliance: complianceBench,
  start: startBench,
  station: stationBench,
};
const asked = process.argv.slice(2).filter((word) => word !== "--brief");
const unknown = asked.find((name) => !Object.hasOwn(benches, name));
if (unknown !== undefined) {
  process.stderr.write(
    `imprimatur bench: there is no bench ${unknown}; did you mean ${nearest(unknown, [...Object.keys(benches), "--brief"])}?\n`,
  );
  process.exit(2);
}

endWhenTold();
let missed = 0;
for (const [name, bench] of Object.entries(benches)) {
  if (asked.length > 0 && !asked.includes(name)) continue;
  for (const line of await bench()) {
    const verdict = line.met ? "ok  " : "MISS";
    process.stdout.write(BRIEF ? `ran  ${line.name}\n` : `${verdict} ${line.name}: ${line.figure}, ${line.target}\n`);
    if (!line.met && !BRIEF) missed += 1;
  }
}
process.exit(missed === 0 ? 0 : 1);
