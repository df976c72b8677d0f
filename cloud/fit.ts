// Imported before anything that would crash on an old Node: says so in one line instead.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 24 || (major === 24 && minor < 21)) {
  process.stderr.write(`imprimatur: Node ${process.versions.node} is too old, 24.21 or newer is needed; npm start and npm run bring their own\n`);
  process.exit(1);
}
