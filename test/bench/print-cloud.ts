// A cloud with a print shop in it, and labels that live their whole life there over HTTP: what several benches measure.
import { type Claim, goodItems, printShop, sealOf, type Shop } from "../../fixtures/print-shop.ts";
import { type Call, leanClient, well } from "./lean-client.ts";
import { inFull } from "./measure.ts";
import { cloudOn, freshFolder } from "./servers.ts";

export const BATCH = inFull(100, 10); // labels a station claims and reports at once
const RESULTS_A_CALL = 500;
const API = "/api/v2";

export async function issue(shop: Shop, count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1_000) {
    const serials = await shop.allocate(Math.min(left, 1_000));
    const { body } = await shop.admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin: shop.gtin, serial })) });
    if (body.failed > 0) throw new Error(JSON.stringify(body.errors[0]));
  }
}

/** A label's way in six calls: claim, four states, seal. */
export async function oneByOne(call: Call): Promise<boolean> {
  const answer = await call(`${API}/aidc/jobs/claim`, { needs: ["qr"] });
  if (answer.status === 204) return false;
  const claimed = await well<Claim>(Promise.resolve(answer));
  const items = goodItems(claimed, false);
  for (const item of [...items, sealOf(items)])
    await well(call(`${API}/aidc/jobs/${claimed.job.job_ref}/result`, { attempt_id: claimed.attempt_id, ...item }));
  return true;
}

export const claimSome = async (call: Call, max: number): Promise<Claim[]> =>
  (await well<{ claims: Claim[] }>(call(`${API}/aidc/jobs/claim/batch`, { needs: ["qr"], max }))).claims;

/** Many labels' way in as many calls as it takes: a claim for all of them, then their results, 500 a call. */
export async function inBatches(call: Call, most = BATCH): Promise<number> {
  const claims = await claimSome(call, most);
  const results = claims.flatMap((claimed) => {
    const items = goodItems(claimed, false);
    return [...items, sealOf(items)].map((item) => ({ job_ref: claimed.job.job_ref, attempt_id: claimed.attempt_id, ...item }));
  });
  for (let at = 0; at < results.length; at += RESULTS_A_CALL) {
    const { results: outcomes } = await well<{ results: { status: number; error?: object }[] }>(
      call(`${API}/aidc/results`, { results: results.slice(at, at + RESULTS_A_CALL) }),
    );
    const refused = outcomes.find(({ status }) => status !== 200);
    if (refused) throw new Error(JSON.stringify(refused));
  }
  return claims.length;
}

/** Serials are allocated by the thousand, as factories do; who finds none waits for the one call that brings them. */
function serialsOf(shop: Shop): () => Promise<string> {
  const serials: string[] = [];
  let more: Promise<unknown> | undefined;
  return async () => {
    for (;;) {
      const serial = serials.pop();
      if (serial !== undefined) return serial;
      more ??= shop.allocate(inFull(10_000, 1_000)).then((made) => {
        serials.push(...made);
        more = undefined;
      });
      await more;
    }
  };
}

type SealedLabel = { jobRef: string; tenantId: string };
/** Labels from the order to the seal, on a cloud of these settings; before it begins, `stock` may fill the closed store with a past, made of one sealed label. */
export async function printCloud({
  settings = {},
  stock,
}: { settings?: Record<string, string>; stock?(folder: string, label: SealedLabel): Promise<void> } = {}) {
  const folder = freshFolder();
  const cloud = await cloudOn(folder, settings);
  const shop = await printShop(cloud);
  if (stock) {
    const { job_ref: jobRef } = await shop.issue();
    const { claim, seal } = shop.device;
    await seal(await claim());
    await cloud.restart(() => stock(folder, { jobRef, tenantId: shop.tenantId }));
  }
  const device = leanClient(cloud.url, shop.device.secret);
  const issuer = leanClient(cloud.url, shop.adminKey);
  const nextSerial = serialsOf(shop);
  return {
    shop,
    post: device.post,
    pid: () => cloud.pid,
    url: () => cloud.url,
    /** Issue, claim, five results. */
    inSevenCalls: async (): Promise<number> => {
      await well(issuer.post(`${API}/aidc/jobs`, { gtin: shop.gtin, serial: await nextSerial() }));
      return Number(await oneByOne(device.post));
    },
    inBatches: async (most = BATCH): Promise<number> => {
      const items = [];
      for (let i = 0; i < most; i += 1) items.push({ gtin: shop.gtin, serial: await nextSerial() });
      await well(issuer.post(`${API}/aidc/jobs/batch`, { items }));
      return inBatches(device.post, most);
    },
    end: async () => {
      device.end();
      issuer.end();
      await cloud.end();
    },
  };
}
export type PrintCloud = Awaited<ReturnType<typeof printCloud>>;
