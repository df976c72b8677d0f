// bwip-js by its CommonJS door, which opens when the first label is drawn: a station without work doesn't hold its 2 MB of source and what becomes of them.
import { createRequire } from "node:module";

type Bwip = typeof import("bwip-js/node");
const require = createRequire(import.meta.url);

export const bwip = (): Bwip => require("bwip-js/node") as Bwip;
