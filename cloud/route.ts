// An endpoint as one value. Auth, scope, rate, validation, idempotency, transaction, audit, 405 and OpenAPI follow from being one.
import type { Readable } from "node:stream";
import type { IncomingHttpHeaders } from "node:http";
import type { Static, TSchema } from "typebox";
import { API } from "#shared/api.ts";
import type { AuditAction } from "#shared/audit.ts";
import type { ErrorCode, FieldFault, Refusal } from "#shared/errors.ts";
import type { Scope } from "#shared/scopes.ts";
import type { Deps } from "./deps.ts";
import type { Caller } from "./domain/callers.ts";
import type { By } from "./domain/events.ts";
import type { Upload } from "./domain/uploads.ts";
import type { Tag } from "./openapi.ts";
import type { Tx } from "./store/store.ts";

/** What a route answers; `about` is what its audit row says: whom it concerns and what a reader should know. */
export type Reply = {
  status: number;
  /** A stream is sent as it comes, by a route that serves. */
  body?: object | string | Readable;
  headers?: Record<string, string>;
  /** Nothing happened that an audit log should tell of. */
  quiet?: boolean;
  /** Nothing happened at all, such as a claim where nothing waits: no audit row, and its replay is remembered by this node, not by the store. */
  isIdle?: boolean;
  about?: { subject: string | null; details?: Record<string, unknown> };
};

/** The request as it was sent, its address undecoded; `from` is whom it counts against. */
export type Asked = { method: string; url: string; headers: IncomingHttpHeaders; from: () => string };

type Of<Schema> = Schema extends TSchema ? Static<Schema> : undefined;
type Input<P, Q, B> = {
  caller: Caller;
  by: By;
  params: Of<P>;
  query: Of<Q>;
  body: Of<B>;
  requestId: string;
  idempotencyKey: string | undefined;
  /** The If-Match header of a route that takes one. */
  ifMatch: string | undefined;
  /** The file of a route that takes one, received whole. */
  upload: Upload | undefined;
  /** The body of a route that takes bytes. */
  bytes: Buffer;
  mediaType: string;
  asked: Asked;
  deps: Deps;
};

type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
type Face<P, Q, B> = {
  /** Below `API`, unless `root`. */
  path: string;
  root?: boolean;
  /** Any one of these opens the route. "credential": any good one. "client": an OAuth client named in the body, or by HTTP Basic. */
  scope: readonly Scope[] | "credential" | "client" | "public";
  /** Nobody but a key that is bound to a device, whatever its scopes. */
  onlyDevices?: boolean;
  /** Answered even for a sandbox past its end. */
  evenExpired?: boolean;
  /** Answered under any load and at any rate: probes ask at the worst of times. */
  always?: boolean;
  /** The code of a refusal for want of scope, where the spec gives the route another. */
  deniedAs?: "FORBIDDEN";
  says: string;
  /** Not in the OpenAPI document: its answer never ends, and whoever calls all that is documented would wait for it. */
  endless?: boolean;
  params?: P | undefined;
  query?: Q | undefined;
  body?: B | undefined;
  /** Faults that no schema of a body finds, or of a query where there is no body, beside those that it found. */
  judge?: (body: Record<string, unknown>, found: readonly FieldFault[], params: unknown) => FieldFault[];
  /** Its body is a list whose items the route judges one by one: what is unfit in one must not refuse the others. */
  judgesItems?: boolean;
  /** Refuses a body with a code of its own before any of its fields is judged. */
  refuse?(body: unknown): void;
  /** What the body may be is judged by the route's `prepare`: its schema only shows it. */
  judgesBody?: boolean;
  /** Headers of the request that say something to this route. */
  takesHeaders?: Readonly<Record<string, { says: string; oneOf: readonly string[] }>>;
  /** A standard's names for refusals by their status, the headers that tell its limits with a 413, and those that its clients ask for by OPTIONS. */
  standard?: Readonly<{ exceptions: Record<number, string>; limits: Record<string, string>; discovery: Record<string, string> }>;
  /** A body as OpenAPI shows it and as a test sends it. */
  example?: unknown;
  takesForm?: boolean;
  /** JSON under names of its own, besides application/json. */
  takesJsonAs?: readonly string[];
  takesIfMatch?: boolean;
  /** The body is a file of this type, bare or as the one part of a form, of any size up to the import's limit. */
  takesFile?: string;
  /** The body is bytes of one of these types. */
  takesBytes?: readonly string[];
  bodyMaxBytes?: number;
  /** It reads its address as it was sent: nothing of path and query is judged before. */
  readsAddress?: boolean;
  /** Headers of all its answers, refusals too. */
  headers?: Readonly<Record<string, string>>;
  /** Any web page may read it: CORS, and an answer to OPTIONS, which has these headers beside. */
  open?: true | ((asked: Asked, deps: Deps) => Record<string, string>);
  /** A refusal as a page, for whoever would rather have one. */
  refusalPage?(refusal: Refusal, asked: Asked): Omit<Reply, "status"> | undefined;
  /** By status: the shape of a JSON body, a text's media type or what it is for, or the media types to choose from. */
  replies: Record<number, TSchema | string | readonly string[]>;
  /** The shape of its JSON, where that is one of several media types or has a name of its own. */
  jsonShape?: TSchema;
  /** Headers that each of its successes has. */
  sends?: readonly SentHeader[];
  /** Headers that only some of its successes have, such as the link to a next page. */
  maySend?: readonly SentHeader[];
  refusals?: readonly ErrorCode[];
  idempotencyKey?: "required";
  /** What a replay must not show in clear: paths that become null, or the secret of the request that locks the whole answer, as long as that stands. */
  replay?: { hide: readonly string[] } | { lockWith: string; keepMs: number; stands(answer: string, deps: Deps): boolean };
};

/** A GET, unless it says otherwise. */
type Read<P, Q, B> = Face<P, Q, B> & { method?: Method; run(input: Input<P, Q, B> & { tx: Tx }): Promise<Reply> };
type Unfit = { tx: Tx; body: unknown; found: readonly FieldFault[] };
type Write<P, Q, B, R> = Face<P, Q, B> & {
  method: Method;
  audit: AuditAction;
  /** Frequent and short: on PostgreSQL many such requests share a transaction (see `Store.joint`). */
  isJoint?: true;
  /** Bodies that take long: such a request has a transaction of its own. */
  runsAlone?(body: Of<B>): boolean;
  /** Asked where a body is unfit. What stands in the way of any body at all is told before that; faults that only the store can tell, beside it. */
  guard?(input: Pick<Input<P, Q, B>, "caller" | "params"> & Unfit): Promise<FieldFault[] | void>;
  /** What has to happen outside before anything is written: a call over the network, heavy crypto. Not for a replay; its outcome goes to `run`. */
  prepare?(input: Input<P, Q, B>): Promise<R>;
  run(input: Input<P, Q, B> & { tx: Tx; prepared: R }): Promise<Reply>;
};
type Serve<P, Q, B> = Face<P, Q, B> & { method?: Method; run(input: Input<P, Q, B>): Promise<Reply> };

// The schemas of one route are another's, so a list of routes can only say "some schema".
// oxlint-disable-next-line typescript/no-explicit-any
type Any = any;
type Named = { method: Method; tag: Tag };
export type Route =
  | ({ kind: "read" } & Named & Read<Any, Any, Any>)
  | ({ kind: "write" } & Named & Write<Any, Any, Any, Any>)
  | ({ kind: "serve" } & Named & Serve<Any, Any, Any>);

type S = TSchema | undefined;

/** What makes the routes that the OpenAPI document shows under one tag. */
export const routesUnder = (tag: Tag) => ({
  /** Runs in one read unit: one snapshot, no effect. */
  read: <P extends S = undefined, Q extends S = undefined, B extends S = undefined>(spec: Read<P, Q, B>): Route => ({
    kind: "read",
    method: "GET",
    tag,
    ...spec,
  }),
  /** Runs in one write unit, with its audit row and its replayable answer in the same commit. */
  write: <P extends S = undefined, Q extends S = undefined, B extends S = undefined, R = undefined>(spec: Write<P, Q, B, R>): Route => ({
    kind: "write",
    tag,
    ...spec,
  }),
  /** Runs outside of any unit, for answers that need none, or many. */
  serve: <P extends S = undefined, Q extends S = undefined, B extends S = undefined>(spec: Serve<P, Q, B>): Route => ({
    kind: "serve",
    method: "GET",
    tag,
    ...spec,
  }),
});

export const pathOf = (route: Route): string => (route.root ? route.path : API + route.path);
/** What it is called in logs, audit rows and keys. */
export const labelOf = (route: Route): string => `${route.method} ${pathOf(route)}`;

/** Who calls it says so in the headers, by a credential or a console's session. */
export const needsCredential = ({ scope }: Route): boolean => scope !== "public" && scope !== "client";

/** The content types that its body may have. */
export const mediaOf = ({ takesFile, takesForm, takesBytes, takesJsonAs = [] }: Route): string[] =>
  takesFile
    ? [takesFile, "multipart/form-data"]
    : [...(takesBytes ?? ["application/json", ...takesJsonAs]), ...(takesForm ? ["application/x-www-form-urlencoded"] : [])];

/** The headers that tell something and stand at a success of this status: 200 is the thing itself, so it has no Location. */
export const sentWith = ({ sends = [] }: Route, status: number): SentHeader[] =>
  status >= 400 ? [] : sends.filter((name) => name !== "Location" || ![200, 304].includes(status));
export const sentHeaders = [
  "ETag",
  "Location",
  "Content-Disposition",
  "Link",
  "Content-Language",
  "GS1-EPCIS-Version",
  "GS1-CBV-Version",
  "GS1-EPC-Format",
  "GS1-Capture-Error-Behaviour",
] as const;
type SentHeader = (typeof sentHeaders)[number];

export const isSchema = (reply: TSchema | string | readonly string[]): reply is TSchema =>
  typeof reply === "object" && !Array.isArray(reply);
const MEDIA = /^[a-z]+\/[\w.+-]+$/;
/** The content types that its body may have; a reply that names none says in plain words why it has no body. */
export const mediaOfReply = (reply: TSchema | string | readonly string[]): string[] =>
  isSchema(reply) ? ["application/json"] : [reply].flat().filter((name) => MEDIA.test(name));
