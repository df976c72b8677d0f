// Three sounds that nobody takes for one another, made here: two rising tones, a triple buzz, one long low tone. Muted by hand, and kept so.
import { signal } from "#shared/web/dom.ts";
import { inBrowser } from "#shared/web/kept.ts";
import type { Colour } from "./results.ts";

const KEPT = "muted";
export const muted = signal(inBrowser.getItem(KEPT) === "true");
export function setMuted(is: boolean): void {
  muted.value = is;
  inBrowser.setItem(KEPT, String(is));
}

type Tone = [at: number, seconds: number, hertz: number];
const TUNES: Record<Colour, { wave: OscillatorType; tones: Tone[] }> = {
  good: { wave: "sine", tones: [[0, 0.1, 880], [0.12, 0.18, 1_320]] },
  bad: { wave: "square", tones: [[0, 0.16, 170], [0.22, 0.16, 170], [0.44, 0.3, 130]] },
  warn: { wave: "triangle", tones: [[0, 0.4, 440]] },
}; // oxfmt-ignore
const LOUD = 0.25;
let context: AudioContext | undefined;

/** Browsers are silent until somebody has touched the page; the state says so rather than failing. Some are told to let no page make sounds. */
export function sound(colour: Colour): void {
  if (muted.peek() || !("AudioContext" in globalThis)) return;
  context ??= new AudioContext();
  if (context.state === "suspended") void context.resume();
  const { wave, tones } = TUNES[colour];
  for (const [at, seconds, hertz] of tones) {
    const [from, to] = [context.currentTime + at, context.currentTime + at + seconds];
    const [tone, volume] = [context.createOscillator(), context.createGain()];
    tone.type = wave;
    tone.frequency.value = hertz;
    volume.gain.setValueAtTime(LOUD, from);
    volume.gain.linearRampToValueAtTime(0, to);
    tone.connect(volume).connect(context.destination);
    tone.start(from);
    tone.stop(to);
  }
}
