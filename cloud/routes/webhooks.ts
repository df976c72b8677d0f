// Webhooks over HTTP: made, changed, tried out, their secrets rotated, their deliveries seen and sent again.
import { API } from "#shared/api.ts";
import type { FieldFault } from "#shared/errors.ts";
import { closed, IdParams, listOf, PageQuery } from "#shared/wire/common.ts";
import {
  Delivery,
  DeliveryParams,
  DeliveryQuery,
  Webhook,
  WebhookCreate,
  WebhookMinted,
  WebhookPatch,
  WebhookTest,
} from "#shared/wire/webhooks.ts";
import { urlFault } from "../adapters/address.ts";
import * as deliveries from "../domain/deliveries.ts";
import * as domain from "../domain/webhooks.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, serve, write } = routesUnder("webhooks");
const scope = ["webhooks:manage"] as const;
/** What is wrong with a URL wherever webhooks may go; where they may is the node's to say, afterwards. */
function judge({ url }: Record<string, unknown>): FieldFault[] {
  const fault = typeof url === "string" ? urlFault(url, true) : undefined;
  return fault ? [{ field: "url", rule: "url", message: fault }] : [];
}
const replay = { hide: ["secret"] } as const;
const about = ({ id, url, events, enabled }: Webhook) => ({ subject: id, details: { url, events, enabled } });
const aboutDelivery = ({ id, webhookId, eventId, type }: Delivery) => ({ subject: webhookId, details: { deliveryId: id, eventId, type } });

export const webhooks: Route[] = [
  write({
    method: "POST",
    path: "/webhooks",
    scope,
    says: "Make a webhook; its secret is shown this once",
    body: WebhookCreate,
    judge,
    example: { url: "https://erp.example.com/imprimatur", events: ["print.confirmed", "print.failed"], description: "ERP" },
    replies: { 201: WebhookMinted },
    sends: ["Location"],
    refusals: ["UNKNOWN_EVENT_TYPE", "WEBHOOKS_EXHAUSTED"],
    audit: "webhook.created",
    replay,
    run: async ({ tx, caller, body, deps }) => {
      const made = await domain.create(tx, caller, body, deps);
      return { status: 201, body: made, headers: { location: `${API}/webhooks/${made.id}` }, about: about(made) };
    },
  }),
  read({
    path: "/webhooks",
    scope,
    says: "The tenant's webhooks, newest first, with what is wrong with them",
    query: closed(PageQuery),
    replies: { 200: listOf(Webhook) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await domain.list(tx, caller, query) }),
  }),
  read({
    path: "/webhooks/{id}",
    scope,
    says: "One webhook, without its secret",
    params: IdParams,
    replies: { 200: Webhook },
    run: async ({ tx, caller, params }) => ({ status: 200, body: await domain.get(tx, caller, params.id) }),
  }),
  write({
    method: "PATCH",
    path: "/webhooks/{id}",
    scope,
    says: "Change a webhook, disable it, or enable it again: then what was held goes out",
    params: IdParams,
    body: WebhookPatch,
    judge,
    example: { events: ["print.confirmed"], enabled: true },
    replies: { 200: Webhook },
    refusals: ["UNKNOWN_EVENT_TYPE"],
    audit: "webhook.updated",
    run: async ({ tx, caller, params, body, deps }) => {
      const changed = await domain.patch(tx, caller, params.id, body, deps);
      return { status: 200, body: changed, about: about(changed) };
    },
  }),
  write({
    method: "DELETE",
    path: "/webhooks/{id}",
    scope,
    says: "Delete a webhook and its deliveries; what waits isn't sent any more",
    params: IdParams,
    replies: { 204: "Deleted" },
    audit: "webhook.deleted",
    run: async ({ tx, caller, params }) => {
      const { id, url } = await domain.remove(tx, caller, params.id);
      return { status: 204, about: { subject: id, details: { url } } };
    },
  }),
  write({
    method: "POST",
    path: "/webhooks/{id}/test",
    scope,
    says: "Send the catalogue's example of an event, disabled or not; its delivery shows what came of it",
    params: IdParams,
    body: WebhookTest,
    example: { type: "print.confirmed" },
    replies: { 202: Delivery },
    sends: ["Location"],
    refusals: ["UNKNOWN_EVENT_TYPE"],
    audit: "webhook.tested",
    run: async ({ tx, caller, params, body, requestId }) => {
      const made = await deliveries.tryOut(tx, caller, params.id, body, requestId);
      const location = `${API}/webhooks/${params.id}/deliveries/${made.id}`;
      return { status: 202, body: made, headers: { location }, about: aboutDelivery(made) };
    },
  }),
  write({
    method: "POST",
    path: "/webhooks/{id}/rotate-secret",
    scope,
    says: "Replace the secret: for 24 hours deliveries are signed with both, the new one first",
    params: IdParams,
    replies: { 200: WebhookMinted },
    audit: "webhook.secret_rotated",
    replay,
    run: async ({ tx, caller, params, deps }) => {
      const rotated = await domain.rotate(tx, caller, params.id, deps);
      return { status: 200, body: rotated, about: { subject: rotated.id, details: { previousSecretUntil: rotated.previousSecretUntil } } };
    },
  }),
  serve({
    path: "/webhooks/{id}/deliveries",
    scope,
    says: "Its deliveries, newest first, each with every try",
    params: IdParams,
    query: DeliveryQuery,
    replies: { 200: listOf(Delivery) },
    run: async ({ caller, params, query, deps }) => ({ status: 200, body: await deliveries.list(deps.store, caller, params.id, query) }),
  }),
  read({
    path: "/webhooks/{id}/deliveries/{deliveryId}",
    scope,
    says: "One delivery with every try",
    params: DeliveryParams,
    replies: { 200: Delivery },
    run: async ({ tx, caller, params }) => ({ status: 200, body: await deliveries.get(tx, caller, params.id, params.deliveryId) }),
  }),
  write({
    method: "POST",
    path: "/webhooks/{id}/deliveries/{deliveryId}/redeliver",
    scope,
    says: "Send a delivery again, under the same id, with a new round of tries",
    params: DeliveryParams,
    replies: { 202: Delivery },
    audit: "webhook.redelivered",
    run: async ({ tx, caller, params }) => {
      const again = await deliveries.redeliver(tx, caller, params.id, params.deliveryId);
      return { status: 202, body: again, about: aboutDelivery(again) };
    },
  }),
];
