// Runs before each file of tests.
import { afterAll, expect, TestRunner } from "vitest";
import { kept, memory } from "../fixtures/in-memory.ts";
import { endAll } from "./endings.ts";

kept.in = memory() ?? kept.in;
const { performance, Date: Calendar, setTimeout } = globalThis;
const { now } = performance;
afterAll(endAll);

const { poll } = expect;
/** Beside other tests it doesn't know whose it is, and fails where another one has just ended. */
expect.poll = (...of) => {
  if (TestRunner.getCurrentTest()?.concurrent) throw new Error("of tests beside each other each polls with its own expect: t.expect.poll");
  return poll(...of);
};
afterAll(() => void (expect.poll = poll));

/** The next file has the same globals: on a clock that stands still its waits would end late, or never. */
afterAll(() => {
  if (
    globalThis.performance !== performance ||
    performance.now !== now ||
    globalThis.Date !== Calendar ||
    globalThis.setTimeout !== setTimeout
  )
    throw new Error("this file has left a clock of its own behind");
});
