// Writes by twos: what any two leave behind when they overlap is what they leave one after the other, in one order or in the other.
import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { gtin14 } from "#shared/gs1.ts";
import { type Answer, type Client, sure } from "../../fixtures/client.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productOf } from "../../fixtures/passports.ts";
import { type Claim, goodItems, printShop, sealOf, type Shop } from "../../fixtures/print-shop.ts";
import { productMaker, type Made } from "../../fixtures/publishing.ts";
import { startWorld } from "../../fixtures/world.ts";
import { type Act, overlapsOn, type Scene } from "../overlap.ts";
import { freshDatabase } from "../world.ts";

const databaseUrl = (await freshDatabase("postgres")) ?? "";
const w = await startWorld({ databaseUrl });
const { oddities, end } = await overlapsOn(databaseUrl);
afterAll(() => w.end());
afterAll(end);

let next = 940_000;
const gtin = () => gtinOf((next += 1));
const well = async (asked: Promise<Answer>): Promise<Answer["body"]> => (await sure(asked)).body;

type Tenant = Scene & { admin: Client };
async function tenant(): Promise<Tenant> {
  const { data, adminKey } = await well(w.admin.post("/tenants", { name: "by twos", sandbox: true }));
  return { tenantId: data.id, admin: w.as(adminKey.secret), names: { "its tenant": data.id } };
}

type Floor = Scene & Pick<Shop, "admin" | "device" | "product" | "gtin"> & { serial: string; former: Claim[]; ref: string; claimed: Claim };
/** A serial with two labels that were given up, and a job that is about to seal a third. */
const floor = {
  make: async (): Promise<Floor> => {
    const { admin, device, product, tenantId, gtin: itsGtin, issue } = await printShop(w, { gtin: gtin() });
    const { job_ref: before, serial } = await issue({ max_attempts: 5 });
    const sayAll = ({ job, attempt_id }: Claim, items: object[]) =>
      well(device.api.post("/aidc/results", { results: items.map((item) => ({ job_ref: job.job_ref, attempt_id, ...item })) }));
    const former: Claim[] = [];
    for (let n = 0; n < 2; n += 1) {
      const claimed = await device.claim({ lease_seconds: 600 });
      await sayAll(claimed, [...goodItems(claimed).slice(0, 2), { status: "FAILED", reason: "jam" }]);
      former.push(claimed);
    }
    await well(admin.post(`/aidc/jobs/${before}/cancel`, {}));
    const { job_ref: ref } = await well(admin.post("/aidc/jobs", { gtin: itsGtin, serial }));
    const claimed = await device.claim({ lease_seconds: 600 });
    await sayAll(claimed, goodItems(claimed));
    const [first, second] = former.map(({ attempt_id: attempt }) => attempt) as [string, string];
    const names = { before, ref, first, second, third: claimed.attempt_id, product: product.id, serial, gtin: itsGtin, device: device.id };
    return { tenantId, admin, device, product, gtin: itsGtin, serial, former, ref, claimed, names };
  },
  acts: {
    "its first label is found": (scene) => told(scene, 0, "found"),
    "its second label is destroyed": (scene) => told(scene, 1, "destroyed"),
    "its third label is sealed": ({ device, claimed }) => device.say(claimed, sealOf(goodItems(claimed))),
    "the serial is voided": ({ admin, product, serial }) => admin.post(`/products/${product.id}/void`, { reason: "stolen", serial }),
  } satisfies Record<string, Act<Floor>>,
};
const told = ({ admin, former }: Floor, nth: 0 | 1, disposition: string): Promise<Answer> => {
  const { job, attempt_id } = former[nth] as Claim;
  const said = { evidence: { note: "on the floor" }, disposition, actor: { kind: "operator", id: "op-7" } };
  return admin.post("/aidc/orphans", { job_ref: job.job_ref, attempt_id, ...said });
};

type Keys = Tenant & { free: string; device: string; own: string };
const keys = {
  make: async (): Promise<Keys> => {
    const scene = await tenant();
    const { id: free } = (await well(scene.admin.post("/api-keys", { name: "free", scopes: ["aidc:read"] }))).data;
    const { device, key } = await well(scene.admin.post("/devices", { name: "line 1" }));
    return { ...scene, free, device: device.id, own: key.id, names: { ...scene.names, free, device: device.id, own: key.id } };
  },
  acts: {
    "a free key is given to a device": ({ admin, free }) => admin.post("/devices", { name: "line 2", api_key_id: free }),
    "the free key is rotated": ({ admin, free }) => admin.post(`/api-keys/${free}/rotate`),
    "the free key is revoked": ({ admin, free }) => admin.delete(`/api-keys/${free}`),
    "the device's key is rotated": ({ admin, own }) => admin.post(`/api-keys/${own}/rotate`),
    "the device's key is revoked": ({ admin, own }) => admin.delete(`/api-keys/${own}`),
    "the device is removed": ({ admin, device }) => admin.delete(`/devices/${device}`),
  } satisfies Record<string, Act<Keys>>,
};

type Hook = Tenant & { hook: string };
const hooks = {
  make: async (): Promise<Hook> => {
    const scene = await tenant();
    const { id: hook } = await well(scene.admin.post("/webhooks", { url: "https://erp.example.com/", events: ["product.created"] }));
    return { ...scene, hook, names: { ...scene.names, hook } };
  },
  acts: {
    "a webhook listens to more": ({ admin, hook }) => admin.patch(`/webhooks/${hook}`, { events: ["product.created", "product.updated"] }),
    "the webhook is disabled": ({ admin, hook }) => admin.patch(`/webhooks/${hook}`, { enabled: false }),
    "its secret is rotated": ({ admin, hook }) => admin.post(`/webhooks/${hook}/rotate-secret`),
    "the webhook is deleted": ({ admin, hook }) => admin.delete(`/webhooks/${hook}`),
  } satisfies Record<string, Act<Hook>>,
};

type Drafted = Tenant & { product: Made; other: string };
const drafts = {
  make: async (): Promise<Drafted> => {
    const scene = await tenant();
    const product = await productMaker(scene.admin)({ gtin: gtin() }, "draft");
    const other = gtin();
    const names = { ...scene.names, product: product.id, passport: product.passportId, gtin: product.gtin, other: gtin14(other) };
    return { ...scene, product, other, names };
  },
  acts: {
    "a draft is edited": ({ admin, product }) =>
      admin.patch(`/passports/${product.passportId}`, { content: { product: { name: "Another" } } }),
    "its credential is revoked": ({ admin, product }) => admin.post(`/credentials/${product.passportId}/revoke`),
    "the draft is published": ({ admin, product }) =>
      admin.post(`/products/${product.id}/publish-dpp`, undefined, { "idempotency-key": randomUUID() }),
    "the draft is deleted": ({ admin, product }) => admin.delete(`/passports/${product.passportId}`),
    "the product goes back": ({ admin, product }) => admin.post(`/products/${product.id}/lifecycle/transition`, { stage: "draft" }),
    "the product gets another GTIN": ({ admin, product, other }) => admin.patch(`/products/${product.id}`, { gtin: other }),
  } satisfies Record<string, Act<Drafted>>,
};

type Stocked = Tenant & { product: Made; other: string };
const products = {
  make: async (): Promise<Stocked> => {
    const scene = await tenant();
    const product = await productMaker(scene.admin)({ gtin: gtin() }, "none");
    const other = gtin();
    return { ...scene, product, other, names: { ...scene.names, product: product.id, gtin: product.gtin, other: gtin14(other) } };
  },
  acts: {
    "a product gets another GTIN": ({ admin, product, other }) => admin.patch(`/products/${product.id}`, { gtin: other }),
    "it is renamed at its first version": ({ admin, product }) =>
      admin.patch(`/products/${product.id}`, { name: "Another" }, { "if-match": '"1"' }),
    "another product takes that GTIN": ({ admin, other }) => admin.post("/products", productOf({ gtin: other })),
    "it is validated": ({ admin, product }) => admin.post(`/products/${product.id}/lifecycle/transition`, { stage: "validated" }),
    "it is voided": ({ admin, product }) => admin.post(`/products/${product.id}/void`, { reason: "x" }),
    "it is deleted": ({ admin, product }) => admin.delete(`/products/${product.id}`),
  } satisfies Record<string, Act<Stocked>>,
};

/** Each with each, and with itself. */
const pairsOf = <T>(of: readonly T[]): [T, T][] => of.flatMap((one, i) => of.slice(i).map((other): [T, T] => [one, other]));
function everyPair<S extends Scene>(about: string, { make, acts }: { make(): Promise<S>; acts: Record<string, Act<S>> }): void {
  describe.concurrent(`${about}, by twos`, () => {
    for (const [[name, one], [otherName, other]] of pairsOf(Object.entries(acts)))
      test(`${name}, and ${otherName}`, async () => expect(await oddities(make, one, other)).toEqual([]));
  });
}
everyPair("labels", floor);
everyPair("keys and devices", keys);
everyPair("webhooks", hooks);
everyPair("passports", drafts);
everyPair("products", products);
