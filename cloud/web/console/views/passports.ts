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

/** With its product, or its version alone: of that a node of the version before says nothing. */
export const isRevoked = ({ revokedAt, credentialRevokedAt }: PassportListed): boolean =>
  (revokedAt ?? credentialRevokedAt ?? null) !== null;

export const PassportState = ({ of: passport }: { of: PassportListed }) =>
  isRevoked(passport)
    ? h(Badge, { tone: "bad", text: words().passports.revoked })
    : h(Badge, { tone: TONES[passport.status], text: words().passports.status[passport.status] });

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
