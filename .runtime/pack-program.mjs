// Packs the program named first into a few files of plain JavaScript, into the folder named second. Node keeps 28 kB for each ES module it has loaded, of
// which typebox alone has up to 709, and 17 MB for what blanks types: unpacked, a station holds 50 MB more, a cloud 25. What is CommonJS or native stays where it is.
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";

const [entry, dir] = process.argv.slice(2);
const isOurs = /^(?:\.|\/|[A-Za-z]:\\|#shared\/|(?:typebox|ky|jose)(?:\/|$))/;
function transform(code, id) {
  // A thread begins with the file that starts it: the packed one, for which nothing has to be blanked of its types.
  if (code.includes("new Worker(new URL(import.meta.url)")) return void this.emitFile({ type: "chunk", id });
  if (code.includes("import.meta.resolve"))
    throw new Error(`${id}: import.meta.resolve would look from where the pack lies; createRequire(import.meta.url).resolve doesn't`);
  return code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href));
}
const bundle = await rolldown({
  input: { main: entry },
  platform: "node",
  external: (id) => !isOurs.test(id),
  /** Each module goes on to name files as seen from where it was written. */
  plugins: [{ name: "places", transform }],
});
await bundle.write({ dir, format: "esm", entryFileNames: "[name].mjs", chunkFileNames: "[name]-[hash].mjs" });
