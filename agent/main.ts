// imprimatur agent. Sees that this Node is fit before anything is loaded that would crash on another, then works.
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 24 || (major === 24 && minor < 21)) {
  process.stderr.write(`imprimatur: Node ${process.versions.node} is too old, 24.21 or newer is needed; npm run agent brings its own\n`);
  process.exit(1);
}

enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/imprimatur", import.meta.url)));
const { runAgent } = await import("./commands.ts");
await runAgent();
