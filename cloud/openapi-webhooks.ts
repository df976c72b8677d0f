// What we send, in the OpenAPI document: every event of the catalogue under `webhooks`, with the schema that it is validated by before it goes.
import { EVENT_API_VERSION, envelopeOf, type EventName, eventNames, eventTable } from "#shared/events.ts";

const header = (name: string, description: string, required = true) => ({
  name,
  in: "header",
  required,
  description,
  schema: { type: "string" },
});
const headers = [
  header("X-Service-Delivery", "The delivery's id, the same at every try: do nothing twice for it"),
  header("X-Service-Timestamp", "Seconds since 1970; refuse what is more than five minutes off"),
  header("X-Service-Signature", "`sha256=` and the hex HMAC-SHA256 of the body; two, comma-separated, while a rotation's overlap lasts"),
  header("X-Service-Signature-V2", "`t=<timestamp>,v2=` and the hex HMAC-SHA256 of `<timestamp>.<body>`; likewise with a second v2"),
  header("webhook-id", "As Standard Webhooks has it: the delivery's id"),
  header("webhook-timestamp", "As Standard Webhooks has it"),
  header("webhook-signature", "As Standard Webhooks has it: `v1,` and base64; two, space-separated, while the overlap lasts"),
  header("X-Correlation-Id", "That of the request which it came from, where one did", false),
  header("traceparent", "The delivery's place in that request's trace, where traces are kept (W3C Trace Context)", false),
];

const sent = (type: EventName) => ({
  post: {
    summary: eventTable[type].says,
    description:
      "Answer 2xx within 15 seconds. A 4xx ends the delivery, 410 also disables the webhook; all else is tried again for some 17 hours.",
    operationId: `on${type.replaceAll(/(?:^|[._])(\w)/g, (_, first: string) => first.toUpperCase())}`,
    tags: ["webhooks"],
    security: [],
    parameters: headers,
    requestBody: {
      required: true,
      content: {
        "application/json": {
          schema: envelopeOf(type),
          example: {
            id: "019a0000-0000-7000-8000-00000000000a",
            type,
            timestamp: "2026-11-01T12:00:00.000Z",
            apiVersion: EVENT_API_VERSION,
            data: eventTable[type].example,
          },
        },
      },
    },
    responses: { "2XX": { description: "Delivered" }, "4XX": { description: "Refused: not sent again" } },
  },
});

export const withWebhooks = <Document extends object>(document: Document): Document & { webhooks: object } => ({
  ...document,
  webhooks: Object.fromEntries(eventNames.map((type) => [type, sent(type)])),
});
