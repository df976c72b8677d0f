// How often a stream of events says that it is alive, where it has nothing else to say: whoever hears nothing for twice as long has lost it.
export const BEAT_MS = 15_000;
