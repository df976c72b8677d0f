// Webhooks and their deliveries as they cross the wire: a secret is in an answer once, a delivery shows every try.
import { Type } from "typebox";
import { limits } from "../limits.ts";
import { closed, Id, Instant, nullable, PageQuery, READABLE, type Static } from "./common.ts";

const Url = Type.String({
  minLength: 1,
  maxLength: limits.WEBHOOK_URL_MAX_LENGTH,
  description: "https, to a public address; IMPRIMATUR_WEBHOOK_PRIVATE also allows http and private ones",
});
const Description = Type.String({ minLength: 1, maxLength: limits.REASON_MAX_LENGTH, pattern: READABLE });
/** Names outside the catalogue are a 422 of their own, so that the shape takes any. */
const Events = Type.Array(Type.String({ minLength: 1, maxLength: 100 }), {
  minItems: 1,
  maxItems: 100,
  uniqueItems: true,
  description: "Names from the catalogue of events",
});

export const WebhookCreate = closed({ url: Url, events: Events, description: Type.Optional(Description) });
export type WebhookCreate = Static<typeof WebhookCreate>;
export const WebhookPatch = closed(
  {
    url: Type.Optional(Url),
    events: Type.Optional(Events),
    description: Type.Optional(nullable(Description)),
    enabled: Type.Optional(Type.Boolean({ description: "true lets what was held go out" })),
  },
  { minProperties: 1 },
);
export type WebhookPatch = Static<typeof WebhookPatch>;

const disabledReasons = ["by_hand", "gone", "failing"] as const;
export type DisabledReason = (typeof disabledReasons)[number];

const webhook = {
  id: Id,
  url: Type.String(),
  description: nullable(Type.String()),
  events: Type.Array(Type.String()),
  enabled: Type.Boolean(),
  disabledAt: nullable(Instant),
  disabledReason: nullable(Type.Enum([...disabledReasons], { description: "gone: it answered 410. failing: no try succeeded for days" })),
  failingSince: nullable(Instant),
  previousSecretUntil: nullable(Instant),
  createdAt: Instant,
  updatedAt: Instant,
};
export const Webhook = closed(webhook);
export type Webhook = Static<typeof Webhook>;
export const WebhookMinted = closed({
  ...webhook,
  secret: nullable(Type.String({ description: "whsec_ and base64; shown once, null in a replay" })),
});
export type WebhookMinted = Static<typeof WebhookMinted>;

const deliveryStates = ["pending", "delivered", "failed", "exhausted", "held"] as const;
export type DeliveryState = (typeof deliveryStates)[number];

export const Attempt = closed({
  at: Instant,
  status: nullable(Type.Integer({ description: "What the receiver answered; null where it answered nothing" })),
  error: nullable(Type.String({ description: "Why there is no answer" })),
  latencyMs: Type.Integer(),
  responseHead: nullable(Type.String({ description: "The first characters of what it answered" })),
  nextTryAt: nullable(Instant),
});
export type Attempt = Static<typeof Attempt>;

export const Delivery = closed({
  id: Type.String({ description: "The same at every try: what a receiver recognizes a repetition by" }),
  webhookId: Id,
  eventId: Id,
  type: Type.String(),
  status: Type.Enum([...deliveryStates], {
    description: "failed: a 4xx ended it. exhausted: no try is left. held: the webhook is disabled",
  }),
  attempts: Type.Array(Attempt, { description: "Oldest first" }),
  nextTryAt: nullable(Instant),
  createdAt: Instant,
  endedAt: nullable(Instant),
});
export type Delivery = Static<typeof Delivery>;

export const DeliveryQuery = closed({ ...PageQuery, status: Type.Optional(Type.Enum([...deliveryStates])) });
export type DeliveryQuery = Static<typeof DeliveryQuery>;
export const DeliveryParams = closed({ id: Id, deliveryId: Id });
export const WebhookTest = closed({
  type: Type.Optional(Type.String({ minLength: 1, maxLength: 100, description: "Which event to send; its first one when absent" })),
});
export type WebhookTest = Static<typeof WebhookTest>;
