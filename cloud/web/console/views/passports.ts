// Passports with the state that each is in and the version that the public sees.
import type { PassportState as State } from "#shared/states.ts";
import { h } from "#shared/web/dom.ts";
import type { PassportListed } from "#shared/wire/passports.ts";
import { count, words } from "../language.ts";
import { useList } from "../loading.ts";
import { Ago, Badge, code, Filter, Listed, Title, type Tone } from "../parts.ts";
import { place } from "../state.ts";

const TONES: Record<State, Tone> = { generating: "work", draft: "calm", published: "good", suspended: "warn", archived: "calm" };
const states = Object.keys(TONES) as State[];

export const PassportState = ({ of: { status, revokedAt, credentialRevokedAt } }: { of: PassportListed }) =>
  (revokedAt ?? credentialRevokedAt) === null
    ? h(Badge, { tone: TONES[status], text: words().passports.status[status] })
    : h(Badge, { tone: "bad", text: words().passports.revoked });

export function Passports() {
  const status = states.find((name) => name === place.value.query.get("status"));
  const list = useList<PassportListed>(`/passports${status === undefined ? "" : `?status=${status}`}`, ["passport", "product"]);
  const { passports, common, products } = words();
  const version = (value: number | null) => (value === null ? common.none : count(value));
  const columns = [
    { title: common.state, cell: (passport: PassportListed) => h(PassportState, { of: passport }) },
    { title: products.passport, class: "wide", cell: ({ id, uid }: PassportListed) => h("a", { href: `#/products/${uid}` }, code(id)) },
    { title: passports.published, cell: ({ publishedVersion }: PassportListed) => version(publishedVersion) },
    { title: passports.draft, cell: ({ draftVersion }: PassportListed) => version(draftVersion) },
    { title: products.changed, cell: ({ updatedAt }: PassportListed) => h(Ago, { at: updatedAt }) },
  ];
  return [
    h(Title, { text: passports.title }),
    h(Filter, { at: "#/passports", by: "status", label: common.state, chosen: status, names: states, texts: passports.status }),
    h(Listed<PassportListed>, {
      list,
      label: passports.title,
      columns,
      keyOf: ({ id }) => id,
      empty: status === undefined ? passports.none : passports.noneSuch,
    }),
  ];
}
