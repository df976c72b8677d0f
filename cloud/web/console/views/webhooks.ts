// Webhooks and their deliveries: what was sent, what was answered, and sending it again.
import { h, useEffect, useSignal } from "#shared/web/dom.ts";
import type { Delivery, DeliveryState, Webhook } from "#shared/wire/webhooks.ts";
import { type Refused, send } from "../api.ts";
import { count, moment, words } from "../language.ts";
import { useList, useLoaded } from "../loading.ts";
import { Ago, Badge, Card, code, Filter, Listed, Shown, Table, Title, told, type Tone, Why } from "../parts.ts";
import { place } from "../state.ts";

const TONES: Record<DeliveryState, Tone> = { pending: "work", delivered: "good", failed: "bad", exhausted: "bad", held: "warn" };
const states = Object.keys(TONES) as DeliveryState[];
const LOOK_EVERY_MS = 10_000; // tries aren't audited, so that nothing tells of them

const Enabled = ({ of: { enabled, disabledReason } }: { of: Webhook }) => {
  const { webhooks } = words();
  if (enabled) return h(Badge, { tone: "good", text: webhooks.enabled });
  return h(Badge, {
    tone: "warn",
    text: disabledReason === null ? webhooks.disabled : `${webhooks.disabled}: ${webhooks.disabledBy[disabledReason]}`,
  });
};

function lastOf({ attempts, nextTryAt }: Delivery) {
  const last = attempts.at(-1);
  return [
    last && (last.status !== null ? String(last.status) : last.error === null ? words().common.unknown : told(last.error)),
    nextTryAt !== null && h("small", null, ` ${words().webhooks.next(moment(nextTryAt))}`),
  ];
}

function Again({ of, done }: { of: Delivery; done(): void }) {
  const said = useSignal<Refused | "sent" | undefined>(undefined);
  const asked = useSignal<Delivery | undefined>(undefined);
  const { webhooks } = words();
  const isOnItsWay = asked.value === of || of.status === "pending";
  const sent = isOnItsWay ? webhooks.sentAgain : webhooks.triedAgain;
  async function again(): Promise<void> {
    if (asked.value === of) return; // a second tap would send it twice
    asked.value = of;
    const { refused } = await send("POST", `/webhooks/${of.webhookId}/deliveries/${encodeURIComponent(of.id)}/redeliver`);
    said.value = refused ?? "sent";
    if (refused) asked.value = undefined;
    done();
  }
  return [
    of.status !== "pending" &&
      h("button", { type: "button", "aria-disabled": asked.value === of || undefined, onClick: () => void again() }, webhooks.again),
    h("span", { role: "status" }, said.value === "sent" ? sent : said.value && h(Why, { refused: said.value })),
  ];
}

function Deliveries({ id }: { id: string }) {
  const status = states.find((name) => name === place.value.query.get("status"));
  const list = useList<Delivery>(`/webhooks/${encodeURIComponent(id)}/deliveries${status === undefined ? "" : `?status=${status}`}`, [
    "webhook",
  ]);
  const { webhooks, common } = words();
  useEffect(() => {
    const timer = setInterval(() => document.hidden || list.reload(), LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [list.data]);
  const columns = [
    {
      title: common.state,
      cell: (delivery: Delivery) => h(Badge, { tone: TONES[delivery.status], text: webhooks.status[delivery.status] }),
    },
    { title: webhooks.events, cell: (delivery: Delivery) => code(delivery.type) },
    { title: webhooks.tries, cell: (delivery: Delivery) => count(delivery.attempts.length) },
    { title: webhooks.last, class: "wide", cell: lastOf },
    { title: common.at, cell: (delivery: Delivery) => h(Ago, { at: delivery.createdAt }) },
    { title: "", cell: (delivery: Delivery) => h(Again, { of: delivery, done: () => list.reload(true) }) },
  ];
  return h(
    Card,
    { title: webhooks.deliveries },
    h(Filter, { at: `#/webhooks/${id}`, by: "status", label: common.state, chosen: status, names: states, texts: webhooks.status }),
    h(Listed<Delivery>, {
      list,
      label: webhooks.deliveries,
      columns,
      keyOf: (delivery) => delivery.id,
      empty: status === undefined ? webhooks.noDeliveries : webhooks.noneSuch,
    }),
  );
}

/** How webhooks are shown, be it one or many. */
function tableOf() {
  const { webhooks, common } = words();
  const columns = [
    { title: common.state, cell: (webhook: Webhook) => h(Enabled, { of: webhook }) },
    {
      title: webhooks.url,
      class: "wide",
      cell: (webhook: Webhook) => h("a", { href: `#/webhooks/${webhook.id}`, class: "code" }, webhook.url),
    },
    { title: webhooks.events, class: "wide", cell: (webhook: Webhook) => code(webhook.events.join(", ")) },
  ];
  return { label: webhooks.title, columns, keyOf: ({ id }: Webhook) => id, empty: webhooks.none };
}

const All = () => h(Listed<Webhook>, { list: useList<Webhook>("/webhooks", ["webhook"]), ...tableOf() });

function One({ id }: { id: string }) {
  const loaded = useLoaded<Webhook>(`/webhooks/${encodeURIComponent(id)}`, ["webhook"]);
  return h(Shown<Webhook>, {
    loaded,
    children: (webhook) => [h(Table<Webhook>, { items: [webhook], ...tableOf() }), h(Deliveries, { id })],
  });
}

export function Webhooks({ id }: { id?: string }) {
  const { webhooks, common } = words();
  return [
    h(Title, { text: webhooks.title, aside: id !== undefined && h("a", { href: "#/webhooks" }, common.all) }),
    id === undefined ? h(All, null) : h(One, { id }),
  ];
}
