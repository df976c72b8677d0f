// A list of any length as a window on it: only the rows in view, and a few beside them, are in the page.
import { type Children, h, useEffect, useRef, useSignal } from "./dom.ts";

const BESIDE_ROWS = 6;

type Props<Item> = {
  items: readonly Item[];
  keyOf(item: Item): string;
  rowHeightPx: number;
  /** What the list is, for those who listen. */
  label: string;
  header: Children;
  row(item: Item): Children;
  empty: Children;
};

/** A table by its roles: rows of one height, told with their true place and number. */
export function Rows<Item>({ items, keyOf, rowHeightPx, label, header, row, empty }: Props<Item>) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => {
      height.value = element.clientHeight;
    });
    watch.observe(element);
    return () => watch.disconnect();
  }, [height]);
  if (items.length === 0) return empty;
  const from = Math.max(0, Math.floor(top.value / rowHeightPx) - BESIDE_ROWS);
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
