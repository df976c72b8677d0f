// The console's own shapes: who is signed in, and the floor in figures.
import { Type } from "typebox";
import { limits } from "../limits.ts";
import { jobStateNames } from "../states.ts";
import { closed, Id, Instant, nullable, type Static } from "./common.ts";
import { TokenRequest } from "./credentials.ts";

const Key = Type.String({ minLength: 1, maxLength: limits.SECRET_MAX_LENGTH, description: "An API key" });
const { client_id: ClientId, client_secret: ClientSecret } = TokenRequest.properties;
/** Either a key, or a client with its secret. */
export const SignIn = closed(
  { key: Type.Optional(Key), client_id: Type.Optional(ClientId), client_secret: Type.Optional(ClientSecret) },
  { shownAs: Type.Union([closed({ key: Key }), closed({ client_id: ClientId, client_secret: ClientSecret })]) },
);
export type SignIn = Static<typeof SignIn>;

export const ConsoleSession = closed({
  tenant: closed({ id: Id, name: Type.String(), sandbox: Type.Boolean() }),
  credential: closed({ kind: Type.String(), id: Type.String(), name: Type.String() }),
  scopes: Type.Array(Type.String()),
  endsAt: nullable(Instant),
});
export type ConsoleSession = Static<typeof ConsoleSession>;

const State = Type.Enum(jobStateNames);
const Count = Type.Integer({ minimum: 0 });
export const Summary = closed({
  at: Instant,
  states: Type.Record(Type.String(), Count, { description: "Jobs by state; those that have ended are all there ever were" }),
  capped: Type.Array(State, { description: "States of which there are at least as many as it says" }),
  sealed_by_hour: Type.Array(closed({ hour: Instant, labels: Count }), {
    description: "The last 24 hours, oldest first; the last one is still running",
  }),
  waiting: Type.Array(closed({ station: nullable(Type.String({ description: "null: any station may take them" })), jobs: Count }), {
    description: "Jobs that a claim may take now, by the station that they are for; those with the most of them",
  }),
  waiting_capped: Type.Boolean(),
  devices: closed({ all: Count, heard_of: Type.Integer({ minimum: 0, description: "Those that aren't silent" }) }),
});
export type Summary = Static<typeof Summary>;
