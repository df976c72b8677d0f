// The station's console begins: it listens to the station, to scanners that play keyboard, and draws what it knows.
import { effect, h, render } from "#shared/web/dom.ts";
import { enterPin, scanned, sheet } from "./acts.ts";
import { hide, result } from "./results.ts";
import { Shell } from "./shell.ts";
import { isPin, typed } from "./sheets.ts";
import { say } from "./speech.ts";
import { begin, state } from "./station.ts";
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
