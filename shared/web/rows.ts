// A list of any length as a window on it: only the rows in view, and a few beside them, are in the page.
import { type Children, h, useEffect, useRef, useSignal } from "./dom.ts";

const BESIDE_ROWS = 6;
const remPx = (): number => Number.parseFloat(getComputedStyle(document.documentElement).fontSize);

type Props<Item> = {
  items: readonly Item[];
  keyOf(item: Item): string;
  /** In heights of the page's text: it grows with that. */
  rowHeightRem: number;
  /** What the list is, for those who listen. */
  label: string;
  header: Children;
  row(item: Item): Children;
  empty: Children;
};

/** A table by its roles: rows of one height, told with their true place and number. */
export function Rows<Item>({ items, keyOf, rowHeightRem, label, header, row, empty }: Props<Item>) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const isEmpty = items.length === 0;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => {
      [top.value, height.value] = [element.scrollTop, element.clientHeight];
    });
    watch.observe(element);
    return () => watch.disconnect();
  }, [isEmpty]); // a list that was empty has another box
  if (isEmpty) return empty;
  const rowHeightPx = rowHeightRem * remPx();
  // One that has become shorter than where it was scrolled to would have no row in view.
  const lowest = Math.max(0, items.length - Math.ceil(height.value / rowHeightPx));
  const from = Math.max(0, Math.min(Math.floor(top.value / rowHeightPx), lowest) - BESIDE_ROWS);
  const shown = items.slice(from, Math.ceil((top.value + height.value) / rowHeightPx) + BESIDE_ROWS);
  return h(
    "div",
    { class: "rows", role: "table", "aria-label": label, "aria-rowcount": items.length + 1 },
    h("div", { role: "rowgroup", class: "rows-head" }, h("div", { role: "row", "aria-rowindex": 1, class: "row" }, header)),
    h(
      "div",
      {
        class: "rows-box",
        role: "rowgroup",
        "aria-label": label,
        tabIndex: 0,
        ref: box,
        onScroll: (event: Event) => {
          top.value = (event.currentTarget as HTMLElement).scrollTop;
        },
      },
      h("div", { role: "presentation", style: { height: `${from * rowHeightPx}px` } }),
      shown.map((item, i) => h("div", { role: "row", class: "row", key: keyOf(item), "aria-rowindex": from + i + 2 }, row(item))),
      h("div", { role: "presentation", style: { height: `${(items.length - from - shown.length) * rowHeightPx}px` } }),
    ),
  );
}
