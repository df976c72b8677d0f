// The console's small parts: shapes that tell what colours tell, buttons for gloves, and words of the station's own that stay as they are.
import { type Children, classes, h, signal, useEffect, useLayoutEffect, useSignal } from "#shared/web/dom.ts";
import { inWords, quoted, refusalInWords } from "#shared/web/telling.ts";
import { clockTime, say } from "./speech.ts";
import type { Label } from "./station.ts";

/** One shape for each meaning, so that nobody has to see its colour. */
export type Tone = "good" | "warn" | "bad" | "busy" | "idle" | "pause" | "play";
const OUTLINES: Record<Tone, string> = {
  good: "M12 1a11 11 0 1 0 0 22 11 11 0 0 0 0-22Z",
  warn: "M12 1.5 23.5 22H.5Z",
  bad: "M7.5 1h9L23 7.5v9L16.5 23h-9L1 16.5v-9Z",
  busy: "M12 .5 23.5 12 12 23.5.5 12Z",
  idle: "M3 3h18v18H3Z",
  pause: "M3 3h18v18H3Z",
  play: "M3 3h18v18H3Z",
};
const MARKS: Record<Tone, string> = {
  good: "m6.5 12.5 3.8 3.8 7.2-8",
  warn: "M12 9v6m0 2.6v.6",
  bad: "m8 8 8 8m0-8-8 8",
  busy: "M7.5 12h9m-3.5-3.5 3.5 3.5-3.5 3.5",
  idle: "M8 12h8",
  pause: "M9 8v8m6-8v8",
  play: "M9 7.5v9l7-4.5Z",
};
export const shape = (tone: Tone) =>
  h(
    "svg",
    { class: `shape ${tone}`, viewBox: "0 0 24 24", "aria-hidden": "true" },
    h("path", { class: "outline", d: OUTLINES[tone] }),
    h("path", { class: "mark", d: MARKS[tone] }),
  );

type ButtonProps = {
  title: string;
  /** Which row's, where each has the same button: for whoever hears the page. */
  of?: string;
  sub?: string | undefined;
  tone?: Tone | "plain";
  big?: boolean;
  disabled?: boolean;
  /** And not answered yet. */
  pressed?: boolean;
  onPress(): void;
};
/** One that can't be pressed now keeps the focus of whoever works by keyboard. */
export const Button = ({ title, of, sub, tone = "plain", big = false, disabled = false, pressed = false, onPress }: ButtonProps) =>
  h(
    "button",
    {
      type: "button",
      class: classes("button", tone, big && "big", pressed && "pressed"),
      "aria-disabled": disabled || undefined,
      "aria-busy": pressed || undefined,
      "aria-description": of,
      onClick: disabled ? undefined : onPress,
    },
    tone === "plain" ? undefined : shape(tone),
    h("span", { class: "button-text" }, h("strong", null, title), sub ? h("small", null, sub) : undefined),
  );

/** Where a panel plays mouse, a press of a button that began before something else came under it is a click as soon as the glove is lifted. */
let isPressed = false;
addEventListener(
  "pointerdown",
  ({ button, target }) => (isPressed = button === 0 && target instanceof Element && target.closest("button") !== null),
  { capture: true },
);
// A move with nothing pressed ends it as well: a dialog of the browser's or the system's may have taken its end.
for (const kind of ["pointermove", "pointerup", "pointercancel"] as const)
  addEventListener(kind, ({ buttons }) => (isPressed &&= buttons !== 0), { capture: true });
let isSpaceDown = false; // a button that it holds down is pressed as it is let go
for (const kind of ["keydown", "keyup"] as const)
  addEventListener(kind, ({ key }) => key === " " && (isSpaceDown = kind === "keydown"), { capture: true });

const READ_MS = 600;
/** The question, once it has stood long enough to be read: an earlier tap was meant for what stood there before, or was the second of two. */
export function useRead(question: string): boolean {
  const read = useSignal<string | undefined>(undefined);
  useEffect(() => {
    let timer = setTimeout(look, READ_MS);
    function look() {
      if (isPressed || isSpaceDown) timer = setTimeout(look, READ_MS);
      else read.value = question;
    }
    return () => {
      clearTimeout(timer);
      read.value = undefined; // one that comes back is read anew
    };
  }, [question]);
  return read.value === question;
}

type Cover = "sheet" | "screen";
/** What lies over the page, or did this moment: the second of two taps on it isn't meant for what comes to light. */
export const covered = signal<Cover | undefined>(undefined);
let uncovers: ReturnType<typeof setTimeout> | undefined;
/** Where the focus was before anything of what lies over the page, or did this moment: what follows upon a sheet finds it nowhere. */
let under: Element | null = null;
/** It takes the focus, which goes back to where it was as late as that. From its first moment on: a tap may come before the frame that draws it. */
export function useCover(by: Cover, focus: () => void): void {
  useLayoutEffect(() => {
    const before = document.activeElement === document.body ? under : document.activeElement;
    under = before;
    clearTimeout(uncovers);
    covered.value = by;
    focus();
    return () => {
      covered.value = by;
      uncovers = setTimeout(() => {
        covered.value = undefined;
        under = null;
        if (before instanceof HTMLElement && document.activeElement === document.body) before.focus();
      }, READ_MS);
    };
  }, []);
}

/** What the station, its printers or the cloud said, in the reader's words where they are ours, else quoted. */
export const Theirs = ({ text }: { text: string }) => h("span", { class: "theirs" }, inWords(say().told, text));
/** Why it was refused, by what was said or else by its code. */
export const Refused = ({ code, message }: { code: string; message: string }) =>
  h("span", { class: "theirs" }, refusalInWords(say().told, { code, message }) ?? quoted(message));

/** A name that somebody gave: it runs its own way and turns nothing else around. */
export const Name = ({ text }: { text: string }) => h("bdi", null, text);

export const Time = ({ at }: { at: string }) => h("time", { dateTime: at }, clockTime(at));

/** A label of the ledger, so that people know which. */
export const Which = ({ label: { state, serial, printer, words, at } }: { label: Label }) => [
  h("strong", null, say().count[state]),
  h("span", { class: "code" }, serial ?? printer),
  h(Theirs, { text: words }),
  at !== null && h(Time, { at }),
];

export const Fact = ({ name, value, code = false }: { name: string; value: Children; code?: boolean }) =>
  h("div", { class: "fact" }, h("dt", null, name), h("dd", { class: code ? "code" : undefined }, value));

export const Panel = ({ title, children, id }: { title: string; children?: Children; id?: string }) =>
  h("section", { class: "panel", "aria-label": title, id }, h("h2", null, title), children);
