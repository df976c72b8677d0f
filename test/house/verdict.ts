// The last line of CI: how much passed, how much failed; a check or a run that failed counts as one of its own.
import { readFileSync } from "node:fs";

const [report = "", checks = "1", tests = "1"] = process.argv.slice(2);

type Report = { numPassedTests: number; numFailedTests: number; numPendingTests: number };
const counted = (): Report => {
  try {
    return JSON.parse(readFileSync(report, "utf8")) as Report;
  } catch (error) {
    process.stdout.write(`the tests left no report: ${(error as Error).message}\n`);
    return { numPassedTests: 0, numFailedTests: 0, numPendingTests: 0 };
  }
};
const { numPassedTests, numFailedTests, numPendingTests } = counted();
const checkFailed = checks === "0" ? 0 : 1;
const runFailed = tests !== "0" && numFailedTests === 0 ? 1 : 0;
const passed = numPassedTests + 1 - checkFailed;
const failed = numFailedTests + checkFailed + runFailed + (numPassedTests === 0 ? 1 : 0);
process.stdout.write(`${passed} passed, ${failed} failed${numPendingTests > 0 ? `, ${numPendingTests} skipped` : ""}\n`);
process.exitCode = failed === 0 ? 0 : 1;
