// Packs the modules of a page into one script, onto stdout. A process of its own: the packer takes a hundred megabytes, and is wanted once.
import { rolldown } from "rolldown";

const bundle = await rolldown({ input: process.argv[2], platform: "browser" });
const { output } = await bundle.generate({ format: "esm", minify: true });
process.stdout.write(output[0].code);
