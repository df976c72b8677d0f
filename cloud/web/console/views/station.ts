// One station, with all that it says of its printers: in the list a long state has no room.
import { h, useEffect } from "#shared/web/dom.ts";
import type { Device } from "#shared/wire/devices.ts";
import { count, words } from "../language.ts";
import { useLoaded } from "../loading.ts";
import { Ago, Badge, Card, Empty, Facts, Shown, theirs, Title, told } from "../parts.ts";
import { devices, keepDevices } from "../state.ts";
import { TONES } from "./stations.ts";

export function StationView({ id }: { id: string }) {
  const loaded = useLoaded<Device>(`/devices/${encodeURIComponent(id)}`, ["stations"]);
  const found = loaded.data.value;
  useEffect(() => {
    if (found) keepDevices([found]);
  }, [found]);
  const { stations, common } = words();
  return [
    h(Title, { text: found?.name ?? stations.title }),
    h(Shown<Device>, {
      loaded,
      children: (first) => {
        const { status, station, printers, buffer_depth: depth, version, last_seen: seen } = devices.value.get(id) ?? first;
        return [
          h(
            Card,
            null,
            h(Facts, {
              facts: [
                [stations.presence, h(Badge, { tone: TONES[status], text: stations.status[status] })],
                [stations.station, theirs(station ?? common.any)],
                [stations.buffer, depth !== null && count(depth)],
                [stations.version, version],
                [stations.seen, h(Ago, { at: seen })],
              ],
            }),
          ),
          h(
            Card,
            { title: stations.printers },
            printers.length === 0
              ? h(Empty, { text: common.unknown })
              : h(
                  "dl",
                  { class: "facts" },
                  printers.map(({ name, status }) => h("div", { key: name }, h("dt", null, theirs(name)), h("dd", null, told(status)))),
                ),
          ),
        ];
      },
    }),
  ];
}
