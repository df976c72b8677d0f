// Node runs TypeScript as it stands, but not below node_modules, where an installed package lies: there our own files are blanked
// of their types as they are loaded. Nothing is built, so that a tarball is what `npm pack` makes of the sources, scripts or none.
import { readFileSync } from "node:fs";
import { registerHooks, stripTypeScriptTypes } from "node:module";
import { fileURLToPath } from "node:url";

const ours = new URL("../", import.meta.url).href;
const isOurs = (url) => url.startsWith(ours) && url.endsWith(".ts") && !url.startsWith(`${ours}node_modules/`);

registerHooks({
  load: (url, context, next) =>
    isOurs(url)
      ? { format: "module", source: stripTypeScriptTypes(readFileSync(fileURLToPath(url), "utf8"), { sourceUrl: url }), shortCircuit: true }
      : next(url, context),
});
