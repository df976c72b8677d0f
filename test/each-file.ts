// Runs before each file of tests.
import { afterAll } from "vitest";
import { endAll } from "./endings.ts";

afterAll(endAll);
