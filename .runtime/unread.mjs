// Whoever stops reading what a program says (`| head -1`) ends neither the program nor what it was about to do, and changes no exit code.
// What can't be written for another reason, a full disk most of all, is told where it still can be, and ends with 74: half a verdict is none.
const WRITE_FAILED = 74;
let heard;
process.stderr.on("error", () => {});
process.stdout.on("error", (error) => (heard = error));
process.on("exit", () => {
  const fault = heard ?? process.stdout.errored; // an end in the same turn comes before the event
  if (!fault || fault.code === "EPIPE") return;
  process.stderr.write(`imprimatur: what it had to say couldn't be written: ${fault.message}\n`);
  process.exitCode = WRITE_FAILED;
});
