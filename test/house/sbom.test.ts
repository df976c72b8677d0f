// The bill of materials: every package that we ship is named in it, with a licence that lets us.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const MAY = new Set([
  "MIT",
  "ISC",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "Apache-2.0",
  "BlueOak-1.0.0",
  "0BSD",
  "Unlicense",
  "CC0-1.0",
  "MIT or GPL-2.0",
]);

type Component = {
  name: string;
  version: string;
  purl: string;
  licenses?: { license?: { id?: string; name?: string }; expression?: string }[];
};
const text = execFileSync("npm", ["run", "--silent", "sbom"], { encoding: "utf8", maxBuffer: 16_000_000 });
const bill = JSON.parse(text) as { bomFormat: string; specVersion: string; components: Component[] };

type Locked = { version: string; dev?: boolean; devOptional?: boolean; license?: string };
const lock = JSON.parse(readFileSync("package-lock.json", "utf8")) as { packages: Record<string, Locked> };
const shipped = Object.entries(lock.packages)
  .filter(([path, { dev }]) => path !== "" && !dev)
  .map(([path, { version }]) => `${path.replace(/^.*node_modules\//, "")}@${version}`);

// All of it, with what only we need marked as such: npm leaves out too much when it is told to leave that out.
test("npm run sbom is CycloneDX and names all that the lock file brings to those who install us", () => {
  expect([bill.bomFormat, bill.specVersion]).toEqual(["CycloneDX", expect.stringMatching(/^1\.\d$/)]);
  const named = new Set(bill.components.map(({ name, version }) => `${name}@${version}`));
  expect(shipped.filter((one) => !named.has(one))).toEqual([]);
  const { dependencies } = JSON.parse(readFileSync("package.json", "utf8")) as { dependencies: Record<string, string> };
  expect(Object.entries(dependencies).filter(([name, version]) => !named.has(`${name}@${version}`))).toEqual([]);
});

/** "(MIT OR CC0-1.0)" leaves the choice to us. */
const may = (licence: string) =>
  MAY.has(licence) ||
  licence
    .replaceAll(/[()]/g, "")
    .split(" OR ")
    .some((one) => MAY.has(one));

test("each has a licence, and one that we may ship", () => {
  const licences = ({ licenses = [] }: Component) =>
    licenses.map(({ license, expression }) => license?.id ?? license?.name ?? expression ?? "none");
  const ours = bill.components.filter(({ name, version }) => shipped.includes(`${name}@${version}`));
  const unfit = ours.filter((one) => licences(one).length === 0 || !licences(one).every(may));
  expect(unfit.map((one) => `${one.name}: ${licences(one).join()}`)).toEqual([]);
});
