// What people do at the console besides answering: set a job aside, ask for a reprint, try the printer, and make a simulated one fail.
import { randomUUID } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { Type } from "typebox";
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import { closed } from "#shared/wire/common.ts";
import { skip } from "./answers.ts";
import type { Task } from "./attempt.ts";
import type { CloudClient } from "./cloud.ts";
import { isAway, isRefusal } from "./fates.ts";
import type { Lane } from "./lane.ts";
import type { Operators } from "./operator.ts";
import { bodyOf, Text } from "./request-body.ts";
import { faultsOf, setFault } from "./simulator.ts";
import type { Floor } from "./floor.ts";

export type ActDeps = { floor: Floor; operators: Operators; lanes: Lane[]; cloud: CloudClient; station: string | undefined };
const bodies = {
  session: closed({ session: Type.Optional(Text) }),
  fault: closed({ fault: Type.String({ minLength: 1, maxLength: 64 }), on: Type.Boolean() }),
};
type OfJob = { Params: { ref: string } };
type OfPrinter = { Params: { name: string } };

export function serveActs(app: FastifyInstance, deps: ActDeps): void {
  const { floor, operators, lanes } = deps;
  const laneOf = (name: string): Lane => {
    const lane = lanes.find(({ config }) => config.name === name);
    if (!lane) throw new Refusal("NOT_FOUND", saying("no_such_printer", { printer: JSON.stringify(name) }));
    return lane;
  };
  const whoSays = (body: unknown): string => operators.who(bodyOf(bodies.session, body).session).id;
  app.post<OfJob>("/api/jobs/:ref/skip", ({ params, body }) => {
    skip(floor, params.ref, whoSays(body), (printer) =>
      lanes.some(({ config, state }) => config.name === printer && state().status === "printing"),
    );
    return { skipped: true };
  });
  const reprint = reprints(deps);
  app.post<OfJob>("/api/jobs/:ref/reprint", ({ params, body }) => reprint(params.ref, whoSays(body)));
  app.post<OfPrinter>("/api/printers/:name/test", async ({ params, body }) => {
    const operator = whoSays(body);
    return { words: await laneOf(params.name).test(operator) };
  });
  app.post<{ Params: { n: string } }>("/api/quarantine/:n/seen", ({ params, body }) => {
    const operator = whoSays(body);
    if (!floor.store.seenTo(Number(params.n), operator)) throw new Refusal("NOT_FOUND", saying("nothing_refused", { number: params.n }));
    floor.say("info", { event: "seen_to", operator }, `${operator} has seen to what the cloud refused (${params.n})`);
    floor.news.beat();
    return { seen: true };
  });
  app.get<OfPrinter>("/api/printers/:name/simulator", ({ params }) => faultsOf(laneOf(params.name).config));
  app.post<OfPrinter>("/api/printers/:name/simulator", ({ params, body }) => {
    const { fault, on } = bodyOf(bodies.fault, body);
    return setFault(laneOf(params.name).config, fault, on);
  });
}

/** Who heard nothing and presses again within that time means the same reprint, and no second one. */
const AGAIN_MS = 600_000;
/** A sealed label's serial once more: a job of its own, which only the cloud can issue. */
function reprints({ floor, cloud, station }: ActDeps) {
  const { store, clock } = floor;
  /** Reprints whose answer never came, by the attempt whose label they replace: asked for again they go out under the same Idempotency-Key, of which the cloud issues one job. */
  const unheard = new Map<string, { issue(): ReturnType<CloudClient["issue"]>; until: number }>();
  return async (ref: string, operator: string): Promise<{ job_ref: string }> => {
    const [attempt] = store.ofJob(ref);
    if (!attempt) throw new Refusal("NOT_FOUND", saying("no_such_job", { job: ref }));
    if (attempt.ended !== "sealed") throw new Refusal("ILLEGAL_TRANSITION", saying("reprint_only_sealed"), { allowed: [] });
    const [newest = attempt] = store.allOfLink(attempt.task.digital_link);
    const known = unheard.get(newest.attemptId);
    const { issue } = known && clock.now() < known.until ? known : { issue: issueOf(attempt.task, operator) };
    unheard.set(newest.attemptId, { issue, until: clock.now() + AGAIN_MS });
    const answer = await issue();
    if (answer.ok || (isRefusal(answer) && !isAway(answer))) unheard.delete(newest.attemptId); // who is asked to wait knows nothing yet
    if (answer.ok) return { job_ref: answer.value.job_ref };
    if (!isRefusal(answer)) throw new Refusal("NOT_READY", saying("reprint_cloud_away"));
    throw new Refusal("ILLEGAL_TRANSITION", saying("reprint_refused", { why: `${answer.code}: ${answer.message}` }), {
      allowed: [],
      code: answer.code,
    });
  };
  function issueOf({ gtin, serial, needs, template }: Task, operator: string) {
    const reason = station === undefined ? saying("reprint_as_asked", { operator }) : saying("reprint_as_asked_at", { operator, station });
    const wanted = { gtin, serial, needs, template, reprint: true, reason, ...(station === undefined ? {} : { station }) };
    const key = randomUUID();
    return () => cloud.issue(wanted, key);
  }
}
