// A job's life: every step with who says so, the evidence that came with it, the pictures, and the proof that anybody can recompute.
import { h, signal } from "#shared/web/dom.ts";
import type { Device } from "#shared/wire/devices.ts";
import type { EvidenceBundle, Job, JobHistory } from "#shared/wire/jobs.ts";
import { addressOf, get } from "../api.ts";
import { count, moment, words } from "../language.ts";
import { useLoaded } from "../loading.ts";
import { Card, code, Facts, Moment, Shown, StateBadge, theirs, Title, told, toneIcon, toneOf } from "../parts.ts";
import { devices } from "../state.ts";
import { Proof } from "./proof.ts";

type Step = JobHistory["data"][number];
type Item = EvidenceBundle["items"][number];
type FactName = keyof ReturnType<typeof words>["job"]["facts"];

/** What is said of each kind of evidence before the whole of it. */
const TOLD: Record<string, readonly FactName[]> = {
  render_manifest: ["dpi", "sha256"],
  spool_receipt: ["printer", "bytes"],
  completion: ["grade", "basis", "before", "after"],
  scan_result: ["decoded", "symbology", "source"],
};

const shownValue = (value: unknown) => {
  if (typeof value === "number") return count(value);
  return typeof value === "string" ? code(value) : value === undefined ? undefined : code(JSON.stringify(value));
};

const Picture = ({ sha256 }: { sha256: string }) => {
  const source = addressOf(`/aidc/evidence/${sha256}`);
  return h("a", { href: source, class: "picture" }, h("img", { src: source, alt: words().job.picture, loading: "lazy" }));
};

function Evidence({ name, said }: { name: string; said: Record<string, unknown> }) {
  const { facts, whole, simulated } = words().job;
  const picture = said["image_sha256"];
  return h(
    "div",
    { class: "evidence" },
    said["simulated"] === true && h("span", { class: "badge warn" }, simulated),
    h(Facts, { facts: (TOLD[name] ?? []).map((fact) => [facts[fact], shownValue(said[fact])] as const) }),
    typeof picture === "string" && h(Picture, { sha256: picture }),
    h("details", null, h("summary", null, whole), h("pre", { tabIndex: 0 }, JSON.stringify(said, null, 2))),
  );
}

const names = signal<ReadonlyMap<string, string>>(new Map());
const asked = new Set<string>(); // once each
async function askName(id: string): Promise<void> {
  asked.add(id);
  const { data } = await get<Device>(`/devices/${encodeURIComponent(id)}`);
  if (data) names.value = new Map(names.value).set(id, data.name);
}
/** A station by the name that people know it by. */
function DeviceName({ id }: { id: string }) {
  const name = devices.value.get(id)?.name ?? names.value.get(id);
  if (name === undefined && !asked.has(id)) void askName(id);
  return name === undefined ? code(id) : h("span", { title: id }, theirs(name));
}

function Moments({ step, item }: { step: Step; item: Item | undefined }) {
  const { job, jobs } = words();
  const by = job.by[step.actor.kind as keyof typeof job.by] ?? step.actor.kind;
  const evidence = Object.entries(item?.evidence ?? {}).filter(
    (pair): pair is [string, Record<string, unknown>] => typeof pair[1] === "object",
  );
  return h(
    "li",
    { class: toneOf(step.to) },
    h("span", { class: "node", "aria-hidden": "true" }, toneIcon(toneOf(step.to))),
    h("h3", null, words().states[step.to], step.attempt > 0 && h("small", null, ` · ${jobs.attempt} ${count(step.attempt)}`)),
    h(
      "p",
      { class: "quiet" },
      h(Moment, { at: step.at }),
      " · ",
      by,
      step.actor.id !== null && [" ", step.actor.kind === "device" ? h(DeviceName, { id: step.actor.id }) : code(step.actor.id)],
    ),
    step.occurred_at !== null && h("p", { class: "quiet" }, job.occurred, " ", h(Moment, { at: step.occurred_at })),
    step.reason !== null && h("p", null, words().common.reason, ": ", told(step.reason)),
    evidence.map(([name, said]) => h(Evidence, { key: name, name, said })),
  );
}

function Life({ of, bundle }: { of: Job; bundle: EvidenceBundle | undefined }) {
  const history = useLoaded<JobHistory>(`/aidc/jobs/${of.job_ref}/history`, ["print"]);
  return h(
    Card,
    { title: words().job.life },
    h(Shown<JobHistory>, {
      loaded: history,
      children: ({ data }) =>
        h(
          "ol",
          { class: "life" },
          data.map((step, n) =>
            h(Moments, {
              key: n,
              step,
              item: step.attempt_id === bundle?.attempt_id ? bundle?.items.find(({ status }) => status === step.to) : undefined,
            }),
          ),
        ),
    }),
  );
}

function About({ of }: { of: Job }) {
  const { job, jobs, common } = words();
  return h(
    Card,
    null,
    of.duplicate_risk && h("p", { class: "notice warn" }, job.risk),
    of.reprint && h("p", { class: "notice" }, job.reprint),
    h(Facts, {
      facts: [
        [jobs.serial, code(of.serial)],
        [jobs.gtin, code(of.gtin)],
        [job.link, h("a", { href: of.digital_link, class: "code", rel: "noreferrer", target: "_blank" }, of.digital_link)],
        [job.epc, of.sgtin96_epc && code(of.sgtin96_epc)],
        [job.product, h("a", { href: `#/products/${of.product_id}` }, words().common.open)],
        [jobs.station, theirs(of.station ?? common.any)],
        [jobs.attempt, jobs.of(count(of.attempt), count(of.max_attempts))],
        [job.lease, of.lease && [h(DeviceName, { id: of.lease.device_id }), " ", job.until(moment(of.lease.expires_at))]],
        [common.reason, of.reason && told(of.reason)],
        [job.issued, h(Moment, { at: of.created_at })],
      ],
    }),
  );
}

export function JobView({ id }: { id: string }) {
  const loaded = useLoaded<Job>(`/aidc/jobs/${encodeURIComponent(id)}`, ["print"]);
  const evidence = useLoaded<EvidenceBundle>(`/aidc/jobs/${encodeURIComponent(id)}/evidence`, ["print"]);
  const { job } = words();
  return [
    h(Title, { text: job.title, aside: loaded.data.value && h(StateBadge, { state: loaded.data.value.state }) }),
    h(Shown<Job>, {
      loaded,
      children: (of) =>
        h(
          "div",
          { class: "grid job" },
          h("div", { class: "pile" }, h(About, { of }), h(Proof, { of, key: of.attempt_id })),
          h(Life, { of, bundle: evidence.data.value }),
        ),
    }),
  ];
}
