// What is asked about the label in hand, and the buttons that answer it.
import { classes, h } from "#shared/web/dom.ts";
import { saying } from "#shared/sayings.ts";
import { isOld } from "#shared/web/upgrade.ts";
import { attest, isBeingSaid, isHeld, skip } from "./acts.ts";
import { Button, shape, Theirs, type Tone, useRead } from "./parts.ts";
import { age, count, say } from "./speech.ts";
import { here, isCut, type Job, type State, type Verdict } from "./station.ts";

type Labels = readonly string[];
/** What stands on verdicts' buttons for the question at hand alone. */
function labelsOn({ ask, stage }: Job): Partial<Record<Verdict, Labels>> {
  const { orphan, destroy_seen, destroy_earlier, destroy_void, scan } = say().verdictOn;
  if (stage === "orphan") return orphan;
  if (ask === null) return scan;
  if (ask.kind === "destroy_earlier") return stage === "printed" ? destroy_seen : destroy_earlier;
  return ask.kind === "destroy_void" ? destroy_void : {};
}
const labelFor = (job: Job, verdict: Verdict): Labels => labelsOn(job)[verdict] ?? say().verdict[verdict];
const TONES: Record<Verdict, Tone> = { good: "good", misprint: "bad", not_printed: "idle", destroyed: "warn" };

/** Which of several labels of a serial is meant: the one in question, or the one to be kept. */
function whichOf({ ask, stage, mark, voids }: Job): string | undefined {
  const { marked, keep, keepGood, unprinted, voidsOut } = say();
  if (ask?.kind === "destroy_void") return [voidsOut(count(voids)), ...(stage === "printed" ? [keepGood] : [])].join(" ");
  if (ask?.kind === "destroy_earlier" && stage !== "orphan") return stage === "printed" ? keep(mark) : unprinted;
  if (stage === "orphan") return marked(mark);
  return mark !== null && (ask?.kind === "attest" || ask?.kind === "unknown_outcome") ? marked(mark) : undefined;
}

/** What more is known than the question says. */
const moreOf = ({ ask }: Job): string | undefined =>
  ask?.kind === "unknown_outcome" || ask?.words === saying("ask_sealed_before") ? ask.words : undefined;

/** What stands above the question, and moves it as it comes and goes. */
const above = ({ online, stopped, paused, notices, buffer }: State) =>
  [
    isCut.value,
    isOld.value,
    online,
    !online && buffer.oldest_at === null,
    stopped === null,
    paused,
    ...notices.map(({ code }) => code),
  ].join();

export function Question({ now, job }: { now: State; job: Job }) {
  const words = say();
  const { ask } = job;
  const which = whichOf(job);
  const { id, name: who } = here.value?.operator ?? {};
  const answers = job.allowed.length > 0;
  const isRead = useRead(`${job.attempt_id} ${job.stage} ${ask?.kind} ${ask?.since} ${id} ${above(now)}`); // a tap that is meant in one's name is no other's word
  const disabled = isHeld(job) || !isRead;
  const more = moreOf(job);
  const question = ask === null ? words.says[job.stage] : job.stage === "orphan" ? words.ask.orphan : words.ask[ask.kind];
  return h(
    "section",
    { class: classes("question", ask !== null && "asks", ask === null && job.stage === "printed" && "scan"), "aria-label": question },
    h(
      "p",
      { class: "headline" },
      shape(ask !== null ? "warn" : job.stage === "printed" ? "busy" : "idle"),
      // How long it has been asked isn't news: it would be read out anew each second. Of which label is: of the next one the same may be asked.
      h(
        "span",
        null,
        h("span", { role: "status" }, question, h("span", { class: "hidden" }, ` ${words.serial} ${job.serial}`)),
        ask?.since ? h("small", null, ` ${words.since(age(ask.since))}`) : undefined,
      ),
    ),
    more !== undefined && h("p", { class: "detail" }, h(Theirs, { text: more })),
    which !== undefined && h("p", { class: "detail" }, which),
    answers && h("p", { class: "who" }, who === undefined ? words.signInToAnswer : words.answersAs(who)),
    h(
      "div",
      { class: "answers" },
      job.allowed.map((verdict) => {
        const [title = verdict, sub] = labelFor(job, verdict);
        return h(Button, {
          key: verdict,
          title,
          sub,
          tone: TONES[verdict],
          big: verdict === "good",
          disabled,
          pressed: isBeingSaid(title, job),
          onPress: () => attest(job, verdict, title, which),
        });
      }),
      job.may_skip &&
        h(Button, {
          title: words.skip,
          sub: words.skipLong,
          disabled,
          pressed: isBeingSaid(words.skip, job),
          onPress: () => skip(job),
        }),
    ),
  );
}
