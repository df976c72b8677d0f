// An import: a file of products taken in now and worked off afterwards.
import { Type } from "typebox";
import { limits } from "../limits.ts";
import { closed, Id, Instant, nullable, type Static } from "./common.ts";

export const ImportQuery = closed({ category: Type.String({ minLength: 1, description: "The category of all its rows" }) });

const ImportStatus = Type.Enum(["pending", "running", "completed", "failed"]);
export const Import = closed({
  id: Id,
  category: Type.String(),
  status: ImportStatus,
  bytes: Type.Integer(),
  total: nullable(Type.Integer({ description: "Rows of the file; known once it was read through" })),
  processed: Type.Integer(),
  created: Type.Integer(),
  failed: Type.Integer({ description: "Rows that were refused" }),
  fault: nullable(Type.String({ description: "Why nothing more came of the file" })),
  errors: Type.Array(closed({ line: Type.Integer(), column: nullable(Type.String()), code: Type.String(), message: Type.String() }), {
    description: `The first ${limits.IMPORT_ERRORS_MAX_ITEMS} faults of rows, by line and column`,
  }),
  createdAt: Instant,
  updatedAt: Instant,
});
export type Import = Static<typeof Import>;
export const ImportTaken = closed({ data: Import });
