// The plan of faults has twenty rows, and every row its tests and a control that there really are.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { plan } from "./plan.ts";

test.each(plan.map((row, i) => [`F${i + 1}`, row.fault, row] as const))(
  "%s, %s, has its tests and a control",
  (_id, _fault, { tests, controls }) => {
    expect([tests.length > 0, controls.length > 0]).toEqual([true, true]);
    const absent = [...tests, ...controls].filter(
      ([file, title]) => !readFileSync(join(import.meta.dirname, "..", file), "utf8").includes(title),
    );
    expect(absent).toEqual([]);
  },
);

test("there are twenty", () => expect(plan).toHaveLength(20));
