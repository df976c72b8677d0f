// Label templates that cloud and station agree on: an envelope names one with its digest, so that nobody prints another by the same name.
import { digestOf } from "./canonical.ts";
import qr100x50 from "./templates/qr-100x50.json" with { type: "json" };
import qr25x25 from "./templates/qr-25x25.json" with { type: "json" };
import qr50x25 from "./templates/qr-50x25.json" with { type: "json" };

/** No template by name: the station takes the largest that fits its label. */
export const ANY_TEMPLATE = "default";

const digests = new Map([qr100x50, qr25x25, qr50x25].map((template) => [template.name, digestOf(template)]));
/** Null for ANY_TEMPLATE, and for a template that only a station has. */
export const templateDigest = (name: string): string | null => digests.get(name) ?? null;
