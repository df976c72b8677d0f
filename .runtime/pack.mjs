// Packs the modules of a page into one script, and each that is fetched later into one more; puts the wanted one onto stdout. A process of its own: the packer takes a hundred megabytes, and is wanted once.
import { rolldown } from "rolldown";

const [input, wanted] = process.argv.slice(2);
const bundle = await rolldown({ input, platform: "browser" });
const { output } = await bundle.generate({ format: "esm", minify: true, chunkFileNames: "[name].js" });
process.stdout.write(output.find(({ name }) => name === wanted).code);
