// The station's console begins: it listens to the station, to scanners that play keyboard, and draws what it knows.
import { effect, h, render } from "#shared/web/dom.ts";
import { followScript } from "#shared/web/upgrade.ts";
import { enterPin, isWaiting, scanned, sheet } from "./acts.ts";
import { hide, result } from "./results.ts";
import { Shell } from "./shell.ts";
import { isPin, typed } from "./sheets.ts";
import { say } from "./speech.ts";
import { begin, isCut, state } from "./station.ts";
import { listenToWedge } from "./wedge.ts";

listenToWedge(document, { scan: (text) => void scanned(text), key: typed });
document.addEventListener("keydown", (event) => {
  const { key } = event;
  if (key === "Escape" && result.peek()) {
    if (!result.peek()?.frame) event.preventDefault(); // what lies below it stays open
    hide();
  }
  if (key === "Enter" && sheet.peek()?.kind === "sign-in" && isPin() && document.activeElement?.tagName !== "BUTTON") void enterPin();
});
effect(() => {
  document.title = `${state.value?.station ?? "Imprimatur"} · ${say().station}`;
});
render(h(Shell, {}), document.getElementById("page") as HTMLElement);
begin();

/** No label is in hand, nothing is asked, and the cloud has answered to all: what comes of that is told once. */
const isAtRest = (): boolean =>
  state.peek()?.buffer_depth === 0 &&
  (state.peek()?.jobs ?? []).every(({ stage, ask }) => ask === null && (stage === "waiting" || stage === "rendered"));
const look = followScript("/console.js", () => !isWaiting() && !isCut.peek() && !sheet.peek() && !result.peek() && isAtRest());
effect(() => {
  if (!isCut.value) void look();
});
