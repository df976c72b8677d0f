// A scanner that plays keyboard, anywhere on the page: a burst of keys that ends with Enter or Tab is a scan, and presses no button on its way.

/** The longest pause between two keys of one scan: people pause longer, and Bluetooth scanners only a little less. */
const GAP_MAX_MS = 90;
const LEAST_LENGTH = 3;
/** So soon after a character neither Enter nor the space bar presses anything: a scanner hesitated before it, or types in a way that isn't understood here. */
const HESITATES_MS = 1_000;
type Heard = {
  scan(text: string): void;
  /** A key that belongs to no burst: a person's. */
  key(key: string): void;
};

export function listenToWedge(target: Document, heard: Heard): void {
  let text = "";
  let last = -Infinity;
  /** When the last character was typed, be it part of a burst or none, or with Alt as some scanners type all of theirs. */
  let typedAt = -Infinity;
  /** When the last burst was ended. */
  let ended = -Infinity;
  /** Keys that a person may have pressed, until it shows. */
  let untold = "";
  let alone: ReturnType<typeof setTimeout> | undefined;
  const tell = () => {
    clearTimeout(alone);
    if (untold.length < LEAST_LENGTH) for (const key of untold) heard.key(key);
    untold = "";
  };

  const swallow = (event: KeyboardEvent) => {
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  /** By when the keys were pressed, not by when this page found time for them. */
  const inBurst = ({ timeStamp }: KeyboardEvent) => text !== "" && timeStamp - last <= GAP_MAX_MS;
  const isTyped = ({ timeStamp }: KeyboardEvent) => timeStamp - typedAt <= HESITATES_MS;

  function pressed(event: KeyboardEvent): void {
    const { key, timeStamp } = event;
    const goesOn = inBurst(event);
    if (!goesOn) tell();
    if (key.length === 1 && key !== " ") typedAt = timeStamp;
    if (key === "Enter" || key === "Tab") {
      const whole = goesOn ? text : "";
      text = "";
      if (whole.length >= LEAST_LENGTH) untold = "";
      tell();
      if (whole.length === 0) {
        // A person's Enter presses what is in focus, once; a scanner may end its scan with two.
        if (key === "Enter" && (event.repeat || timeStamp - ended <= GAP_MAX_MS)) swallow(event);
        else if (key === "Enter" && isTyped(event)) event.preventDefault(); // a PIN that was typed is entered all the same
        return;
      }
      ended = timeStamp;
      typedAt = -Infinity;
      swallow(event);
      if (whole.length >= LEAST_LENGTH) heard.scan(whole);
      return;
    }
    if (key === "Backspace" && !(goesOn && text.length >= LEAST_LENGTH)) {
      text = "";
      tell();
      return heard.key(key);
    }
    if (key.length !== 1 || event.metaKey || ((event.ctrlKey || event.altKey) && !event.getModifierState("AltGraph"))) {
      if (goesOn) last = timeStamp; // Shift, or what else a scanner presses within a scan
      return;
    }
    if (!goesOn && key === " ") {
      text = "";
      if (isTyped(event)) swallow(event);
      return; // presses the button in focus
    }
    text = (goesOn ? text : "") + key;
    last = timeStamp;
    untold += key;
    swallow(event);
    clearTimeout(alone);
    alone = setTimeout(tell, GAP_MAX_MS * 2);
  }
  target.addEventListener("keydown", pressed, { capture: true });
  // Firefox presses a button with the space bar when it is let go.
  target.addEventListener("keyup", (event) => event.key === " " && (inBurst(event) || isTyped(event)) && swallow(event), { capture: true });
}

/** A link that a keyboard layout has mangled, unless it is somebody's badge after all. */
export const looksLikeLink = (text: string): boolean => /[^\x20-\x7e]/.test(text) || text.includes("/01/");
