// A station by the name that people know it by; each is asked for once.
import { h, signal } from "#shared/web/dom.ts";
import type { Device } from "#shared/wire/devices.ts";
import { get } from "./api.ts";
import { code, theirs } from "./parts.ts";
import { devices } from "./state.ts";

const names = signal<ReadonlyMap<string, string>>(new Map());
const asked = new Set<string>();

async function ask(id: string): Promise<void> {
  asked.add(id);
  const { data } = await get<Device>(`/devices/${encodeURIComponent(id)}`);
  if (data) names.value = new Map(names.value).set(id, data.name);
}

export function DeviceName({ id }: { id: string }) {
  const name = devices.value.get(id)?.name ?? names.value.get(id);
  if (name === undefined && !asked.has(id)) void ask(id);
  return name === undefined ? code(id) : h("span", { title: id }, theirs(name));
}
