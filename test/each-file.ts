// Runs before each file of tests.
import { afterAll } from "vitest";
import { kept, memory } from "../fixtures/in-memory.ts";
import { endAll } from "./endings.ts";

kept.in = memory() ?? kept.in;
afterAll(endAll);
