// Stations with their presence: thousands of them, of which the page holds those in view; the stream keeps each up to date.
import { h, useEffect, useSignal } from "#shared/web/dom.ts";
import { Rows } from "#shared/web/rows.ts";
import type { Device } from "#shared/wire/devices.ts";
import { count, words } from "../language.ts";
import { type Page, useList } from "../loading.ts";
import { Ago, Badge, Empty, Filter, More, Shown, theirs, Title, told, type Tone } from "../parts.ts";
import { devices, keepDevices, place } from "../state.ts";

const ROW_REM = 3.5;
const PAGE_ITEMS = 200;
const PAGES_MAX = 25;
export const TONES: Record<Device["status"], Tone> = { online: "good", degraded: "warn", offline: "bad" };
const statuses = Object.keys(TONES) as Device["status"][];

const printersOf = ({ printers }: Device) =>
  printers.map(({ name, status }, i) => h("span", { key: name }, i > 0 && ", ", theirs(name), ": ", told(status)));

function row(device: Device) {
  const { stations, common } = words();
  const cell = (kind: string, children: unknown) => h("span", { role: "cell", class: kind }, children as string);
  return [
    cell("presence", h(Badge, { tone: TONES[device.status], text: stations.status[device.status] })),
    cell("name", h("a", { href: `#/stations/${device.id}` }, theirs(device.name))),
    cell("station", theirs(device.station ?? common.any)),
    cell("printers", device.printers.length > 0 ? printersOf(device) : common.unknown),
    cell("buffer", device.buffer_depth === null ? "" : count(device.buffer_depth)),
    cell("version", device.version ?? ""),
    cell("seen", h(Ago, { at: device.last_seen })),
  ];
}

function Header() {
  const { presence, name, station, printers, buffer, version, seen } = words().stations;
  return Object.entries({ presence, name, station, printers, buffer, version, seen }).map(([kind, title]) =>
    h("span", { role: "columnheader", class: kind, key: kind }, title),
  );
}

const byName = new Intl.Collator(undefined, { numeric: true });
/** Those in trouble first, then by name. */
const order = (a: Device, b: Device) => statuses.indexOf(b.status) - statuses.indexOf(a.status) || byName.compare(a.name, b.name);

function List({ all }: { all: readonly Device[] }) {
  const wanted = useSignal("");
  const { stations } = words();
  const status = place.value.query.get("status") ?? "";
  const text = wanted.value.trim().toLowerCase();
  const fits = ({ name, station }: Device) => text === "" || `${name} ${station ?? ""}`.toLowerCase().includes(text);
  const shown = all.filter((device) => (status === "" || device.status === status) && fits(device)).toSorted(order);
  const of = (name: Device["status"]) => count(all.filter((device) => device.status === name).length);
  return [
    h("p", { class: "quiet", role: "status" }, stations.count(of("online"), of("degraded"), of("offline"))),
    h(
      "div",
      { class: "actions" },
      h(Filter, { at: "#/stations", by: "status", label: stations.presence, chosen: status, names: statuses, texts: stations.status }),
      h("input", {
        type: "search",
        "aria-label": stations.find,
        placeholder: stations.find,
        onInput: (event: Event) => (wanted.value = (event.currentTarget as HTMLInputElement).value),
      }),
    ),
    h(Rows<Device>, {
      items: shown,
      keyOf: ({ id }) => id,
      rowHeightRem: ROW_REM,
      label: stations.title,
      header: h(Header, null),
      row,
      empty: h(Empty, { text: all.length === 0 ? stations.none : stations.noMatch }),
    }),
  ];
}

/** What the list passed over, where it would have stood, is gone; a newer one is the stream's to tell. */
function goneFrom({ data, nextCursor }: Page<Device>): string[] {
  const listed = new Set(data.map(({ id }) => id));
  const [newest = "", oldest = ""] = [data[0]?.id, nextCursor === null ? "" : data.at(-1)?.id];
  return [...devices.value.keys()].filter((id) => id <= newest && id >= oldest && !listed.has(id));
}

export function Stations() {
  const list = useList<Device>(`/devices?limit=${PAGE_ITEMS}`, ["stations"], PAGES_MAX);
  const loaded = list.data.value;
  useEffect(() => {
    if (loaded) keepDevices(loaded.data, goneFrom(loaded));
  }, [loaded]);
  return [
    h(Title, { text: words().stations.title }),
    h(Shown<Page<Device>>, {
      loaded: list,
      children: ({ nextCursor }) => [
        nextCursor !== null && h("p", { class: "actions quiet" }, words().common.onlyFirst, h(More<Device>, { list })),
        h(List, { all: [...devices.value.values()] }),
      ],
    }),
  ];
}
