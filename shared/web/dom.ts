// What all parts of a page are made with: elements as function calls, signals that redraw who read them, and nothing that needs a build.
import { type ComponentChildren, type ComponentType, h } from "preact";

export { h, render } from "preact";
export { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
export { computed, effect, type Signal, signal, useSignal } from "@preact/signals";

export type Children = ComponentChildren;
/** Class names, those that hold. */
export const classes = (...names: (string | false | undefined)[]): string => names.filter(Boolean).join(" ");

/** A drawing of our own: one path in a box of 24, drawn in the text's colour, told to nobody who listens. */
export const icon = (path: string) => h("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, h("path", { d: path }));

/** So that a list of components can be named in a table. */
export type View<Props = object> = ComponentType<Props>;
