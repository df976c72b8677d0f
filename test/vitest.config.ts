// Every test that touches the cloud runs twice, on SQLite and on PostgreSQL; the rest once.
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Files share a process and what it has loaded: to load the product anew for each took as long as a third of its tests. */
const common = {
  root,
  setupFiles: ["test/each-file.ts"],
  isolate: false,
  testTimeout: 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 60_000 } },
};
const engines = ["test/cloud/**/*.test.ts", "test/journeys/**/*.test.ts"];

export default defineConfig({
  root,
  test: {
    globalSetup: "test/setup.ts",
    maxWorkers: Math.min(8, 2 * availableParallelism()), // half of a test is waiting: a file alone takes 0.3 of a core (soak, schedules) to 0.8 (the consoles)
    projects: [
      {
        test: {
          ...common,
          name: "once",
          include: ["test/{rules,house,faults,agent,contracts,browser}/**/*.test.ts"],
          provide: { engine: "sqlite" },
        },
      },
      { test: { ...common, name: "sqlite", include: engines, provide: { engine: "sqlite" } } },
      { test: { ...common, name: "postgres", include: engines, provide: { engine: "postgres" } } },
    ],
  },
});
