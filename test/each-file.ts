// Runs before each file of tests.
import { afterAll } from "vitest";
import { kept, memory } from "../fixtures/in-memory.ts";
import { endAll } from "./endings.ts";

kept.in = memory() ?? kept.in;
const { performance, Date: Calendar, setTimeout } = globalThis;
const { now } = performance;
afterAll(endAll);
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
