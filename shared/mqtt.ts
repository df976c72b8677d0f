// What a station and its cloud call their MQTT topics: one level for the tenant, one for the device, and one way each.

/** `wake` goes to the device, `status` (kept by the broker) and `telemetry` come from it. */
export type TopicKind = "wake" | "status" | "telemetry";
export type Topics = Record<TopicKind, string>;
export type Place = { tenantId: string; deviceId: string };

const topicOf = ({ tenantId, deviceId }: Place, kind: TopicKind) => `imprimatur/${tenantId}/${deviceId}/${kind}`;
export const topicsOf = (place: Place): Topics => ({
  wake: topicOf(place, "wake"),
  status: topicOf(place, "status"),
  telemetry: topicOf(place, "telemetry"),
});
/** The filters by which a cloud hears all its stations. */
export const EVERY_STATION = topicsOf({ tenantId: "+", deviceId: "+" });

/** The address of a broker, which may be shown, and who signs in there where it says so itself. */
export function brokerAt(url: string): { address: URL; signIn: { username?: string; password?: string } } {
  const address = new URL(url);
  const [username, password] = [decodeURIComponent(address.username), decodeURIComponent(address.password)];
  address.username = "";
  address.password = "";
  return { address, signIn: username ? { username, password } : {} };
}

const TOPIC = /^imprimatur\/([\w-]{1,64})\/([\w-]{1,64})\/(wake|status|telemetry)$/;
/** Whose topic it is; undefined where it is none of ours, or a filter. */
export function placeOf(topic: string): (Place & { kind: TopicKind }) | undefined {
  const [, tenantId, deviceId, kind] = TOPIC.exec(topic) ?? [];
  return tenantId === undefined || deviceId === undefined ? undefined : { tenantId, deviceId, kind: kind as TopicKind };
}
