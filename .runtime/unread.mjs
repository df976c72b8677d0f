// Whoever stops reading what a program says (`| head -1`) ends neither the program nor what it was about to do, and changes no exit code.
process.stdout.on("error", (error) => {
  if (error.code !== "EPIPE") throw error;
});
