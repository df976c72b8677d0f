// What stands over the page: who are you, are you sure, what was it; and the result in its colour.
import { type Children, h, useRef } from "#shared/web/dom.ts";
import { closeSheet, enterPin, explain, isHeld, ofLabel, pin, pinFault, sheet, type Sheet } from "./acts.ts";
import { Button, covered, Refused, shape, Theirs, useCover, useRead, Which } from "./parts.ts";
import { hide, result, type Result } from "./results.ts";
import { say, wordFor } from "./speech.ts";
import { here, type Label, setHere } from "./station.ts";

export function Sheets() {
  const open = sheet.value;
  if (!open) return undefined;
  if (open.kind === "sign-in") return h(SignIn, { sheet: open });
  return open.kind === "confirm" ? h(Confirm, { sheet: open }) : h(Explain, { label: open.label });
}

function Dialog({ title, children }: { title: string; children?: Children }) {
  const box = useRef<HTMLDialogElement>(null);
  useCover("sheet", () => {
    box.current?.showModal();
    box.current?.focus(); // not the first button: Enter at a typed PIN's end would press it
  });
  // Whatever isn't in a modal dialog lies under it and can't be pressed: the result as well.
  return h(
    "dialog",
    { class: "sheet", ref: box, tabIndex: -1, "aria-label": title, onClose: closeSheet },
    h("h2", null, title),
    children,
    h(Outcome, {}),
  );
}

const DIGITS = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
const [SHORTEST, LONGEST] = [4, 12];
export const isPin = (): boolean => pin.value.length >= SHORTEST;
export const typed = (key: string): void => {
  if (sheet.peek()?.kind !== "sign-in" || !/^(\d|Backspace)$/.test(key)) return;
  pinFault.value = undefined;
  pin.value = key === "Backspace" ? pin.peek().slice(0, -1) : (pin.peek() + key).slice(0, LONGEST);
};
function SignIn({ sheet: { said } }: { sheet: Extract<Sheet, { kind: "sign-in" }> }) {
  const words = say();
  const who = here.value?.operator;
  if (who)
    return h(
      Dialog,
      { title: `${words.signedInAs}: ${who.name}` },
      h(
        "div",
        { class: "answers" },
        h(Button, { title: words.back, onPress: closeSheet }),
        h(Button, { title: words.signOut, tone: "idle", onPress: () => (setHere(undefined), closeSheet()) }),
      ),
    );
  return h(
    Dialog,
    { title: words.scanBadge },
    said && h("p", { class: "which" }, h("strong", null, said.title), h("span", { class: "code" }, said.serial)),
    h(
      "p",
      { class: "pin-line" },
      words.orPin,
      h("output", { class: "pin", "aria-label": words.pinSoFar(pin.value.length) }, "●".repeat(pin.value.length) || "–"),
    ),
    pinFault.value !== undefined &&
      h(
        "p",
        { class: "fault-line", role: "alert" },
        shape("bad"),
        typeof pinFault.value === "string" ? pinFault.value : h(Refused, pinFault.value),
      ),
    h(
      "div",
      { class: "pad" },
      DIGITS.map((digit) => h(Button, { key: digit, title: digit, onPress: () => typed(digit) })),
      h(Button, { title: words.erase, onPress: () => typed("Backspace") }),
      h(Button, { title: "0", onPress: () => typed("0") }),
      h(Button, { title: words.enter, tone: "good", disabled: !isPin(), onPress: () => void enterPin() }),
    ),
    h(Button, { title: words.back, onPress: closeSheet }),
  );
}

function Confirm({ sheet: { title, serial, words, which, go } }: { sheet: Extract<Sheet, { kind: "confirm" }> }) {
  const who = here.value?.operator.name;
  const isRead = useRead(title);
  return h(
    Dialog,
    { title },
    h("p", { class: "code serial" }, serial),
    h("p", null, words),
    which !== undefined && h("p", null, which),
    who !== undefined && h("p", { class: "who" }, say().answersAs(who)),
    h(
      "div",
      { class: "answers" },
      h(Button, { title: say().back, onPress: closeSheet }),
      h(Button, { title: say().confirmYes, tone: "warn", disabled: isHeld({ serial }) || !isRead, onPress: go }),
    ),
  );
}

const IN_THE_LEDGER = {
  destroyed: "found and destroyed",
  calibration: "came out while loading or calibrating",
  absent: "looked for, and not there",
  foreign: "printed by somebody else",
} as const;
function Explain({ label }: { label: Label }) {
  const words = say();
  const isRead = useRead(String(label.n));
  return h(
    Dialog,
    { title: words.explainAs },
    h("p", { class: "which" }, h(Which, { label })),
    h(
      "div",
      { class: "answers stacked" },
      (Object.keys(IN_THE_LEDGER) as (keyof typeof IN_THE_LEDGER)[]).map((name) =>
        h(Button, {
          key: name,
          title: words.explanations[name],
          disabled: isHeld(ofLabel(label)) || !isRead,
          onPress: () => explain(label, IN_THE_LEDGER[name], words.explanations[name]),
        }),
      ),
    ),
    h(Button, { title: words.back, onPress: closeSheet }),
  );
}

// --- the result

export function Outcome() {
  const now = result.value;
  return h(
    "div",
    { class: "outcome-box", role: "alert" },
    now && (now.frame ? h(Frame, { now }) : h(Full, { now })),
    (sheet.value ? covered.value === "screen" : covered.value) && h("div", { class: "shield" }),
  );
}
const reasonOf = ({ why, words, code }: Result): Children => {
  const known = why === null || why === undefined ? undefined : (say().why as Record<string, string>)[why];
  if (known !== undefined || words === undefined) return known;
  return code === undefined ? h(Theirs, { text: words }) : h(Refused, { code, message: words });
};
const Full = ({ now }: { now: Result }) => {
  const { colour, what, serial, by } = now;
  const screen = useRef<HTMLButtonElement>(null);
  useCover("screen", () => screen.current?.focus());
  return h(
    "button",
    { type: "button", class: `outcome ${colour}`, ref: screen, onClick: hide },
    shape(colour),
    h("strong", null, wordFor(say().result, what)),
    serial !== undefined && h("span", { class: "code" }, serial),
    h("span", { class: "reason" }, reasonOf(now)),
    by !== undefined && h("span", { class: "by" }, say().by(by)),
    h("small", null, say().tapToClose),
  );
};
const Frame = ({ now: { colour, what, serial, words, by } }: { now: Result }) =>
  h(
    "div",
    { class: `frame ${colour}` },
    h(
      "p",
      null,
      shape(colour),
      h("strong", null, wordFor(say().result, what)),
      ` ${serial ?? words ?? ""}`,
      by !== undefined && ` ${say().by(by)}`,
    ),
  );
