// Labels an hour as bars, drawn by uPlot in the page's own colours; the same figures are a table for whoever can't see them.
import "./browser-language.ts";
import uPlot from "uplot";
import { h, useEffect, useRef } from "#shared/web/dom.ts";
import type { Summary } from "#shared/wire/console.ts";
import { count, language, words } from "./language.ts";

const HEIGHT_PX = 180;
const HOUR_S = 3_600;

const colourOf = (element: Element, name: string) => getComputedStyle(element).getPropertyValue(name).trim();

function drawn(box: HTMLElement, hours: Summary["sealed_by_hour"]): uPlot {
  const [ink, line, accent] = ["--quiet", "--line", "--accent"].map((name) => colourOf(box, name));
  const axis = { stroke: ink ?? "", grid: { stroke: line ?? "", width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const { clock, count: figure } = language.formats();
  const bars = uPlot.paths.bars?.({ size: [0.7] });
  const options: uPlot.Options = {
    width: box.clientWidth,
    height: HEIGHT_PX,
    cursor: { show: false },
    legend: { show: false },
    padding: [8, 28, 0, 0],
    scales: {
      x: { time: true, range: (_plot, least, most) => [least - HOUR_S / 2, most + HOUR_S / 2] },
      y: { range: (_plot, _least, most) => [0, Math.max(4, most * 1.1)] },
    },
    axes: [
      { ...axis, grid: { show: false }, values: (_plot, splits) => splits.map((at) => clock(at * 1_000)), space: 64, size: 28 },
      { ...axis, values: (_plot, splits) => splits.map((value) => (Number.isInteger(value) ? figure(value) : "")), size: 48 },
    ],
    series: [{}, { fill: accent ?? "", stroke: accent ?? "", width: 0, points: { show: false }, ...(bars ? { paths: bars } : {}) }],
  };
  return new uPlot(options, [hours.map(({ hour }) => Date.parse(hour) / 1_000), hours.map(({ labels }) => labels)], box);
}

export function HoursChart({ hours }: { hours: Summary["sealed_by_hour"] }) {
  const box = useRef<HTMLDivElement>(null);
  const { overview } = words();
  const figures = hours.map(({ labels }) => labels);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    let plot = drawn(element, hours);
    const again = () => {
      plot.destroy();
      plot = drawn(element, hours);
    };
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    resized.observe(element);
    const schemes = ["(prefers-color-scheme: dark)", "print"].map((query) => matchMedia(query));
    for (const scheme of schemes) scheme.addEventListener("change", again);
    return () => {
      for (const scheme of schemes) scheme.removeEventListener("change", again);
      resized.disconnect();
      plot.destroy();
    };
  }, [JSON.stringify(hours), language.code()]);
  const told = overview.chart(count(figures.reduce((sum, labels) => sum + labels, 0)), count(Math.max(0, ...figures)));
  return h("div", { class: "chart", role: "img", "aria-label": told, ref: box });
}
