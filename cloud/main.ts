// imprimatur cloud. Sees that this Node is fit before anything is loaded that would crash on another, then serves.
import { enableCompileCache } from "node:module";
import { fileURLToPath } from "node:url";

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 24 || (major === 24 && minor < 21)) {
  process.stderr.write(
    `imprimatur: Node ${process.versions.node} is too old, 24.21 or newer is needed; npm start and npm run bring their own\n`,
  );
  process.exit(1);
}

// Compiled code and stripped types are kept for the next start: 0.45 s and 125 MB instead of 0.6 s and 150 MB.
enableCompileCache(fileURLToPath(new URL("../node_modules/.cache/imprimatur", import.meta.url)));
const { serve } = await import("./serve.ts");
await serve("imprimatur cloud", {});
