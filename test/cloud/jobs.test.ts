// Print jobs over the real API: issued, claimed, reported and sealed, and every way in which that may not go.
import { jwtVerify, createLocalJWKSet } from "jose";
import { describe, expect, test } from "vitest";
import { limits } from "#shared/limits.ts";
import { ANY_TEMPLATE, templateDigest } from "#shared/templates.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { type Claim, goodItems, type Item, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { productMaker } from "../../fixtures/publishing.ts";
import { world } from "../world.ts";

const w = await world();
const shop = await printShop(w);
const { admin, device } = shop;
const refused = (code: string, status = 409) =>
  expect.objectContaining({ status, body: expect.objectContaining({ error: expect.objectContaining({ code }) }) });
const jobOf = async (ref: string) => (await admin.get(`/aidc/jobs/${ref}`)).body;

test("a job's history pages from its first moment on, and without a limit is at most a page", async () => {
  const home = await printShop(w);
  const { job_ref: ref } = await home.issue();
  await home.device.seal(await home.device.claim());
  const path = `/aidc/jobs/${ref}/history`;
  const whole = (await home.admin.get(path)).body;
  expect(Object.keys(whole)).toEqual(["data"]); // as it was shown, where it is whole
  expect(whole.data.length).toBeGreaterThan(4);
  const seen: unknown[] = [];
  for (let cursor: string | undefined = ""; cursor !== undefined;) {
    const { body } = await home.admin.get(`${path}?limit=2${cursor}`);
    expect(body.data.length).toBeLessThanOrEqual(2);
    seen.push(...body.data);
    cursor = body.nextCursor && `&cursor=${body.nextCursor}`;
  }
  expect(seen).toEqual(whole.data);
  expect([(await home.admin.get(`${path}?limit=201`)).status, (await home.admin.get(`${path}?cursor=zz`)).status]).toEqual([400, 400]);
});

test("a history longer than a page of other lists is shown whole all the same", async () => {
  const home = await printShop(w);
  const { job_ref: ref } = await home.issue({ max_attempts: 20 });
  for (let i = 0; i < 20; i += 1) {
    const claimed = await home.device.claim();
    const [render = {}] = goodItems(claimed);
    await home.device.say(claimed, render);
    await home.device.say(claimed, { status: "FAILED", reason: "the queue refused the label" });
  }
  const { data, ...more } = (await home.admin.get(`/aidc/jobs/${ref}/history`)).body;
  expect(data.filter(({ to }: { to: string }) => to === "FAILED")).toHaveLength(20);
  expect(more).toEqual({});
});

test("all jobs of a serial are found by it at every moment of their lives, newest first, and no other's", async () => {
  const home = await printShop(w);
  const [serial = "", other] = await home.allocate(3);
  const issue = async (more = {}) => (await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial, ...more })).body.job_ref as string;
  const found = async (more = "") =>
    (await home.admin.get(`/aidc/jobs?serial=${serial}${more}`)).body.data.map(({ job_ref: ref }: { job_ref: string }) => ref);
  await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial: other, station: "elsewhere" });
  expect(await found()).toEqual([]);
  const refs: string[] = [];
  const next = async (more = {}) => {
    refs.unshift(await issue(more));
    expect(await found()).toEqual(refs);
    return refs[0] ?? "";
  };
  const cancel = async (ref: string) => {
    await home.admin.post(`/aidc/jobs/${ref}/cancel`);
    expect(await found()).toEqual(refs);
  };
  const seal = async () => {
    await home.device.seal(await home.device.claim());
    expect(await found()).toEqual(refs);
  };
  await cancel(await next());
  await next();
  await seal();
  const again = { reprint: true, reason: "worn" };
  await cancel(await next(again));
  await next(again);
  await seal();
  await next(again);
  await seal();
  await cancel(await next(again));
  expect(await found("&state=SEALED")).toEqual([1, 2, 4].map((n) => refs[n]));
  expect([await found("&gtin=04006381333931"), await found(`&device=${home.device.id}&limit=1`)]).toEqual([[], [refs[1]]]);
  const page = (await home.admin.get(`/aidc/jobs?serial=${serial}&limit=4`)).body;
  expect(await found(`&cursor=${page.nextCursor}`)).toEqual(refs.slice(4));
});

test("a label's whole life: claimed, reported state by state, sealed with outcome, event, bundle and proof in one", async () => {
  const issued = await shop.issue({ needs: ["qr", "rfid"] });
  expect(issued).toMatchObject({ state: "QUEUED", attempt: 0, lease: null, digital_link: `${w.url}/01/${shop.gtin}/21/${issued.serial}` });
  expect(issued.sgtin96_epc).toMatch(/^30[0-9A-F]{22}$/);
  const claimed = await device.claim();
  expect(claimed).toMatchObject({ job: { job_ref: issued.job_ref, state: "CLAIMED", attempt: 1 }, lease: { device_id: device.id } });
  const keys = createLocalJWKSet((await w.nobody.get("//.well-known/jwks.json")).body);
  const { payload } = await jwtVerify(claimed.envelope, keys, { issuer: w.url, audience: device.id });
  expect(payload).toMatchObject({
    jti: claimed.attempt_id,
    job_ref: issued.job_ref,
    gtin: shop.gtin,
    serial: issued.serial,
    digital_link: issued.digital_link,
  });
  const sealed = await device.seal(claimed);
  expect([sealed.status, sealed.body.state]).toEqual([200, "SEALED"]);
  const items = goodItems(claimed);
  const bundle = (await admin.get(`/aidc/jobs/${issued.job_ref}/evidence`)).body;
  expect(bundle).toMatchObject({
    attempt_id: claimed.attempt_id,
    items,
    sha256: sealOf(items).evidence.evidence_bundle.sha256,
  });
  expect(bundle.proof.entry).toMatchObject({ kind: "print_bundle", digest: bundle.sha256 });
  expect((await admin.get(`/carriers/${issued.serial}`)).body.metadata.print).toMatchObject({ status: "printed", deviceId: device.id });
  const found = await admin.get(`/epcis/events?MATCH_epc=${encodeURIComponent(issued.digital_link)}`);
  const { eventList } = found.body.epcisBody.queryResults.resultsBody;
  expect(eventList).toMatchObject([
    { type: "ObjectEvent", action: "ADD", bizStep: "commissioning", disposition: "active", epcList: [issued.digital_link] },
  ]);
  const { data: history } = (await admin.get(`/aidc/jobs/${issued.job_ref}/history`)).body;
  expect(history.map(({ from, to }: { from: string; to: string }) => [from, to])).toEqual([
    [null, "QUEUED"],
    ["QUEUED", "CLAIMED"],
    ["CLAIMED", "RENDERED"],
    ["RENDERED", "SPOOL_SUBMITTED"],
    ["SPOOL_SUBMITTED", "PRINTED_ATTESTED"],
    ["PRINTED_ATTESTED", "SCAN_VERIFIED"],
    ["SCAN_VERIFIED", "SEALED"],
  ]);
  expect((await admin.get("/audit-logs/verify")).body.valid).toBe(true);
});

test("an envelope names the template with its digest, and leaves the choice to the station where none was asked for", async () => {
  const claimsOf = async (more: object) => {
    await shop.issue({ ...more, priority: 50 });
    const { envelope } = await device.claim({ lease_seconds: 600 }); // it comes up for no later test
    return JSON.parse(Buffer.from(envelope.split(".")[1] ?? "", "base64url").toString("utf8"));
  };
  expect(await claimsOf({ template: "qr-50x25" })).toMatchObject({ template: "qr-50x25", template_sha256: templateDigest("qr-50x25") });
  expect(templateDigest("qr-50x25")).toMatch(/^[0-9a-f]{64}$/);
  expect(await claimsOf({})).toMatchObject({ template: ANY_TEMPLATE, template_sha256: null, product_name: "Kettle 1.7", reprint: false });
});

test("an envelope says whether another label of the serial may lie about, and whether it is asked for as a reprint", async () => {
  const home = await printShop(w);
  const said: unknown[] = [];
  const claim = async () => {
    const claimed = await home.device.claim();
    const { duplicate_risk, reprint } = JSON.parse(Buffer.from(claimed.envelope.split(".")[1] ?? "", "base64url").toString("utf8"));
    said.push([claimed.job["reason"], duplicate_risk, reprint]);
    return claimed;
  };
  const { serial } = await home.issue();
  const lost = await claim();
  await home.device.upTo(lost, "SPOOL_SUBMITTED");
  await home.device.say(lost, { status: "FAILED", reason: "jam" });
  await home.device.seal(await claim());
  await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial, reprint: true, reason: "torn" });
  await home.device.seal(await claim());
  expect(said).toEqual([
    [null, false, false],
    [null, true, false], // why an attempt failed is not said of the next one
    [null, false, true],
  ]);
});

test("a batch of claims takes the oldest of the highest priority, whatever kinds they are of, and shows them in that order", async () => {
  const home = await printShop(w);
  const low = await home.issue({ priority: 1 });
  const kinds = [["rfid"], ["qr"], ["qr", "rfid"], ["qr"], ["rfid"]];
  const refs: string[] = [];
  for (const [i, needs] of kinds.entries()) refs.push((await home.issue({ needs, priority: i % 2 === 0 ? 5 : 7 })).job_ref);
  const claim = async (max: number) => {
    const { claims } = (await home.device.api.post("/aidc/jobs/claim/batch", { max })).body as { claims: Claim[] };
    return claims.map(({ job }) => job.job_ref);
  };
  expect(await claim(3)).toEqual([refs[1], refs[3], refs[0]]);
  expect(await claim(9)).toEqual([refs[2], refs[4], low.job_ref]);
});

test("the oldest job of the highest priority comes first, by what the device offers and where it stands", async () => {
  const home = await printShop(w);
  const low = await home.issue();
  const high = await home.issue({ priority: 9 });
  const tagged = await home.issue({ needs: ["qr", "rfid"], priority: 99 });
  const elsewhere = await home.issue({ station: "line-2", priority: 99 });
  const here = await home.issue({ station: "line-1", priority: 5 });
  const claim = async (more: object) => (await home.device.api.post("/aidc/jobs/claim", { needs: ["qr"], ...more })).body?.job.job_ref;
  expect(await claim({})).toBe(high.job_ref);
  expect(await claim({ station: "line-1" })).toBe(here.job_ref);
  expect(await claim({ station: "line-1" })).toBe(low.job_ref);
  expect(await claim({ station: "line-1" })).toBeUndefined();
  expect(await claim({ needs: ["qr", "rfid"] })).toBe(tagged.job_ref);
  expect(await claim({ station: "line-2" })).toBe(elsewhere.job_ref);
});

test("what is wrong with an item of a batch is told in the words of a job that is asked for alone", async () => {
  const home = await printShop(w);
  const unfit = [{ gtin: "4006381333932" }, { gtin: home.gtin, serial: 7, color: "red" }, { gtin: "", serial: "1" }];
  const alone = await Promise.all(unfit.map((item) => home.admin.post("/aidc/jobs", item)));
  const { errors } = (await home.admin.post("/aidc/jobs/batch", { items: [...unfit, null] })).body;
  expect(errors.map(({ error }: { error: string }) => error)).toEqual([
    ...alone.map(({ body }) => `${body.error.code}: ${body.error.message}`),
    "VALIDATION_ERROR: body: must be object",
  ]);
  expect(alone.map(({ body }) => body.error.details.fields.map(({ field }: { field: string }) => field))).toEqual([
    ["serial", "gtin"],
    ["color", "serial"],
    ["gtin"],
  ]);
});

test("what a batch of jobs refuses is told in the order of its items", async () => {
  const home = await printShop(w);
  const [a, b] = (await home.allocate(2)).map((serial) => ({ gtin: home.gtin, serial }));
  const { errors, jobs } = (await home.admin.post("/aidc/jobs/batch", { items: [a, b, b, a] })).body;
  expect(errors.map(({ index }: { index: number }) => index)).toEqual([2, 3]);
  expect(jobs).toMatchObject([a, b]);
});

test("the jobs of a batch are claimed in the order of its items, of whichever products and for whichever serials they are", async () => {
  const home = await printShop(w);
  const other = await productMaker(home.admin)({ gtin: gtinOf(690_005) });
  await home.admin.post(`/passports/${other.passportId}/validations`);
  const { serials } = (await home.admin.post("/carriers/batch", { productId: other.id, count: 20 })).body as { serials: string[] };
  const mine = await home.allocate(20);
  const items = mine.flatMap((serial, i) => [
    { gtin: home.gtin, serial },
    { gtin: other.gtin, serial: serials[i] },
  ]);
  expect((await home.admin.post("/aidc/jobs/batch", { items })).body).toMatchObject({ created: 40, jobs: items });
  const { claims } = (await home.device.api.post("/aidc/jobs/claim/batch", { max: 40 })).body as { claims: Claim[] };
  expect(claims.map(({ job }) => job["serial"])).toEqual(items.map(({ serial }) => serial));
});

test("a batch of claims takes as many as there are, each with an attempt of its own", async () => {
  const home = await printShop(w);
  const items = (await home.allocate(7)).map((serial) => ({ gtin: home.gtin, serial }));
  const made = (await home.admin.post("/aidc/jobs/batch", { items: [...items, { gtin: home.gtin, serial: "1" }, { gtin: 7 }] })).body;
  expect(made).toMatchObject({
    created: 7,
    failed: 2,
    errors: [
      { index: 7, error: expect.stringMatching(/^SERIAL_NOT_ALLOCATED: /) },
      { index: 8, error: expect.stringMatching(/^VALIDATION_ERROR: /) },
    ],
  });
  const { claims } = (await home.device.api.post("/aidc/jobs/claim/batch", { max: 5 })).body;
  expect(claims.map(({ job }: { job: { serial: string } }) => job.serial)).toEqual(items.slice(0, 5).map(({ serial }) => serial));
  expect(new Set(claims.map((claimed: { attempt_id: string }) => claimed.attempt_id)).size).toBe(5);
  expect((await home.device.api.post("/aidc/jobs/claim/batch", { max: 200 })).body.claims).toHaveLength(2);
  expect((await home.device.api.post("/aidc/jobs/claim/batch", { max: 200 })).body.claims).toEqual([]);
});

test.each(["printed", "failed"])("a sealed serial that is voided is decommissioned, though it was reported as %s since", async (status) => {
  const home = await printShop(w);
  const job = await home.issue();
  expect((await home.device.seal(await home.device.claim())).status).toBe(200);
  await home.admin.post("/carriers/print-status", { results: [{ serial: job.serial, status }] });
  expect((await home.admin.post(`/products/${home.product.id}/void`, { reason: "torn", serial: job.serial })).status).toBe(200);
  await home.admin.post("/carriers/print-status", { results: [{ serial: job.serial, status: "printed", deviceId: "b" }] }); // is no news
  const { body } = await home.admin.get(`/epcis/events?MATCH_epc=${encodeURIComponent(job.digital_link)}&EQ_action=DELETE`);
  expect(body.epcisBody.queryResults.resultsBody.eventList).toMatchObject([{ bizStep: "decommissioning", disposition: "inactive" }]);
});

test("a voided serial that turns out to have been printed is decommissioned then, once, whenever it was voided", async () => {
  const home = await printShop(w);
  const [serial = ""] = await home.allocate(1);
  const gone = async () => {
    const link = encodeURIComponent((await home.admin.get(`/carriers/${serial}`)).body.digital_link);
    return (await home.admin.get(`/epcis/events?MATCH_epc=${link}&EQ_action=DELETE`)).body.epcisBody.queryResults.resultsBody.eventList;
  };
  const say = (status: string, deviceId: string) => home.admin.post("/carriers/print-status", { results: [{ serial, status, deviceId }] });
  expect((await home.admin.post(`/products/${home.product.id}/void`, { reason: "torn", serial })).status).toBe(200);
  expect((await say("failed", "a")).body.failed).toEqual([serial]);
  expect(await gone()).toEqual([]);
  for (const deviceId of ["a", "b"]) expect((await say("printed", deviceId)).body.printed).toEqual([serial]);
  expect(await gone()).toMatchObject([{ bizStep: "decommissioning", disposition: "inactive" }]);
});

describe("a job isn't issued", () => {
  test("for a serial that wasn't allocated, or under another GTIN", async () => {
    expect(await admin.post("/aidc/jobs", { gtin: shop.gtin, serial: "42" })).toEqual(refused("SERIAL_NOT_ALLOCATED", 422));
    const [serial] = await shop.allocate(1);
    expect(await admin.post("/aidc/jobs", { gtin: "09506000134352", serial })).toEqual(refused("SERIAL_NOT_ALLOCATED", 422));
    expect(await admin.post("/aidc/jobs", { gtin: "09506000134353", serial })).toEqual(refused("VALIDATION_ERROR", 400));
  });

  test("while the passport isn't ready to print", async () => {
    const home = await printShop(w);
    await home.admin.post(`/passports/${home.passportId}/suspend`);
    const [serial] = await home.allocate(1);
    expect(await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial })).toEqual(refused("PASSPORT_NOT_READY", 422));
  });

  test("for what stands in the way of another product's label in the same batch, nor issued because nothing does", async () => {
    const home = await printShop(w);
    const bare = await productMaker(home.admin)({ gtin: gtinOf(690_004) }, "none");
    const { serials } = (await home.admin.post("/carriers/batch", { productId: bare.id, count: 1 })).body;
    const [ready, unready] = [
      { gtin: home.gtin, serial: (await home.allocate(1))[0] },
      { gtin: bare.gtin, serial: serials[0] },
    ];
    for (const items of [
      [unready, ready],
      [ready, unready],
    ]) {
      const { errors, jobs } = (await home.admin.post("/aidc/jobs/batch", { items })).body;
      expect(errors).toEqual([{ index: items.indexOf(unready), error: expect.stringContaining("PASSPORT_NOT_READY") }]);
      expect(jobs).toMatchObject([{ serial: ready.serial }]);
      await home.admin.post(`/aidc/jobs/${jobs[0].job_ref}/cancel`, {});
    }
  });

  test("and its refusal says what stands in the way, not that what was done should be done", async () => {
    const home = await printShop(w);
    const [serial] = await home.allocate(1);
    const publish = () => home.admin.post(`/products/${home.product.id}/publish-dpp`, {}, { "idempotency-key": crypto.randomUUID() });
    const message = async () => {
      const { status, body } = await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial });
      return [status, body.error?.code, body.error?.message];
    };
    const says = (what: string) => [422, "PASSPORT_NOT_READY", expect.stringContaining(what)];
    await home.admin.post(`/passports/${home.passportId}/suspend`);
    expect(await message()).toEqual(says("is suspended"));
    await publish();
    await home.admin.post(`/credentials/${home.passportId}/revoke`);
    expect(await message()).toEqual(says("was revoked"));
    await home.admin.post(`/passports/${home.passportId}/revise`);
    await publish();
    expect(await message()).toEqual(says("anchor a validation"));
    await home.admin.post(`/products/${home.product.id}/void`, { reason: "recalled" });
    expect(await message()).toEqual(says("is voided"));
    const bare = await productMaker(home.admin)({ gtin: gtinOf(690_003) }, "none");
    const { serials } = (await home.admin.post("/carriers/batch", { productId: bare.id, count: 1 })).body;
    const { body } = await home.admin.post("/aidc/jobs", { gtin: bare.gtin, serial: serials[0] });
    expect([body.error.code, body.error.message]).toEqual(["PASSPORT_NOT_READY", expect.stringContaining("has no passport")]);
  });

  test("twice for a serial, nor for a sealed one without saying that it is a reprint", async () => {
    const first = await shop.issue();
    const again = { gtin: shop.gtin, serial: first.serial };
    expect(await admin.post("/aidc/jobs", again)).toEqual(refused("JOB_EXISTS"));
    const claimed = await device.claim();
    expect((await device.seal(claimed)).status).toBe(200);
    expect(await admin.post("/aidc/jobs", again)).toEqual(refused("JOB_EXISTS"));
    expect(await admin.post("/aidc/jobs", { ...again, reprint: true })).toEqual(refused("JOB_EXISTS"));
    const reprint = await admin.post("/aidc/jobs", { ...again, reprint: true, reason: "torn off" });
    expect([reprint.status, reprint.body.reprint, reprint.body.reason]).toEqual([201, true, "torn off"]);
    expect((await admin.get(`/aidc/jobs/${reprint.body.job_ref}`)).body.reason).toBe("torn off");
    expect((await admin.post(`/aidc/jobs/${reprint.body.job_ref}/cancel`)).body.state).toBe("CANCELLED");
  });

  test("with RFID where there is no EPC", async () => {
    const home = await printShop(w, { prefixes: ["999999"] });
    const [serial] = await home.allocate(1);
    const answer = await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial, needs: ["rfid"] });
    expect(answer).toEqual(refused("EPC_UNAVAILABLE", 422));
    expect(answer.body.error.message).toContain("company prefixes (PATCH /tenant sets them)");
    expect((await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial })).body.sgtin96_epc).toBe(null);
  });

  test("for a voided serial, whose open job ends", async () => {
    const job = await shop.issue();
    const voided = await admin.post(`/products/${shop.product.id}/void`, { reason: "torn", serial: job.serial });
    expect(voided.status).toBe(200);
    expect(await jobOf(job.job_ref)).toMatchObject({ state: "CANCELLED", reason: "SERIAL_VOIDED" });
    expect(await admin.post("/aidc/jobs", { gtin: shop.gtin, serial: job.serial })).toEqual(refused("SERIAL_VOIDED", 410));
    expect(await admin.post(`/products/${shop.product.id}/void`, { reason: "again", serial: job.serial })).toEqual(
      refused("ALREADY_VOIDED"),
    );
  });
});

test("only a device's key claims, and nothing of another tenant's", async () => {
  for (const path of ["/aidc/jobs/claim", "/aidc/jobs/claim/batch", "/aidc/station"])
    for (const body of [{}, { max: 0 }]) expect(await admin.post(path, body)).toEqual(refused("DEVICE_KEY_REQUIRED", 403)); // before what is wrong with the body
  expect(await admin.get("/aidc/station?x=1")).toEqual(refused("DEVICE_KEY_REQUIRED", 403));
  const other = await printShop(w);
  const job = await other.issue();
  expect((await device.api.post("/aidc/jobs/claim", { needs: ["qr"] })).status).toBe(204);
  const claimed = await other.device.claim();
  expect(await device.say(claimed, { status: "FAILED", reason: "x" })).toEqual(refused("NOT_FOUND", 404));
  expect((await other.admin.get(`/aidc/jobs/${job.job_ref}`)).body.state).toBe("CLAIMED");
});

test("voiding a product ends its jobs at once, waiting or held, and nobody else's", async () => {
  const home = await printShop(w);
  const other = await productMaker(home.admin)({ gtin: gtinOf(690_002) });
  await home.admin.post(`/passports/${other.passportId}/validations`);
  const [serial] = (await home.admin.post("/carriers/batch", { productId: other.id, count: 1 })).body.serials;
  const jobs = [await home.issue(), await home.issue(), await home.issue()];
  const held = await home.device.claim();
  const printing = await home.device.claim();
  await home.device.upTo(printing, "SPOOL_SUBMITTED");
  const stays = (await home.admin.post("/aidc/jobs", { gtin: other.gtin, serial })).body;
  expect((await home.admin.post(`/products/${home.product.id}/void`, { reason: "recalled" })).status).toBe(200);
  for (const { job_ref: ref } of jobs)
    expect((await home.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ state: "CANCELLED", reason: "PRODUCT_VOIDED" });
  expect((await home.admin.get(`/aidc/jobs/${stays.job_ref}`)).body.state).toBe("QUEUED");
  const [render] = goodItems(held);
  expect((await home.device.say(held, render ?? {})).status).toBe(409);
  expect((await home.device.api.post(`/aidc/jobs/${held.job.job_ref}/heartbeat`, { attempt_id: held.attempt_id })).status).toBe(409);
  expect((await home.admin.get(`/carriers/export?productId=${home.product.id}&printState=pending&format=json`)).body.data).toEqual([]);
});

test("the jobs that the voiding of their product didn't reach don't stand before those that a claim can have", async () => {
  const home = await printShop(w);
  const other = await productMaker(home.admin)({ gtin: gtinOf(690_001) });
  await home.admin.post(`/passports/${other.passportId}/validations`);
  const { serials } = (await home.admin.post("/carriers/batch", { productId: other.id, count: 5 })).body as { serials: string[] };
  const many = (await home.allocate(limits.VOID_CANCELS_JOBS + 3)).map((each) => ({ gtin: home.gtin, serial: each }));
  expect((await home.admin.post("/aidc/jobs/batch", { items: many })).body.failed).toBe(0);
  const more = serials.map((serial) => ({ gtin: other.gtin, serial }));
  const good = (await home.admin.post("/aidc/jobs/batch", { items: more })).body.jobs.map((job: { job_ref: string }) => job.job_ref);
  await home.admin.post(`/products/${home.product.id}/void`, { reason: "recalled" });
  const waiting = (await home.admin.get("/aidc/jobs?state=QUEUED")).body.data as { job_ref: string }[];
  expect(waiting).toHaveLength(8);
  const { claims } = (await home.device.api.post("/aidc/jobs/claim/batch", { max: 4 })).body as { claims: Claim[] };
  expect(claims.map(({ job }) => job.job_ref)).toEqual(good.slice(0, 4)); // as many as were asked for, and no more
  expect((await home.admin.get("/aidc/jobs?state=QUEUED")).body.data).toMatchObject([{ job_ref: good[4] }]);
  for (const { job_ref: ref } of waiting.filter((job) => !good.includes(job.job_ref))) {
    const told = (await home.admin.get(`/aidc/jobs/${ref}/history`)).body.data as { from: string | null; to: string }[];
    expect(told.at(-1)?.to).toBe("CANCELLED");
    expect(told.map(({ from }) => from)).toEqual([null, ...told.slice(0, -1).map(({ to }) => to)]); // nothing is left out
  }
});

test("a label that the voiding of its product didn't reach isn't printed or sealed any more", async () => {
  const home = await printShop(w);
  const serials = await home.allocate(limits.VOID_CANCELS_JOBS + 3);
  await home.admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin: home.gtin, serial })) });
  const claims: Claim[] = [];
  while (claims.length < serials.length) claims.push(...(await home.device.api.post("/aidc/jobs/claim/batch", { max: 100 })).body.claims);
  const words = (claim: Claim, items: Item[]) =>
    items.map((item) => ({ job_ref: claim.job.job_ref, attempt_id: claim.attempt_id, ...item }));
  const [early, ...printing] = claims as [Claim, ...Claim[]];
  const [render = {}, spool = {}] = goodItems(early);
  await home.device.say(early, render);
  const results = printing.flatMap((claim) => words(claim, goodItems(claim)));
  for (let at = 0; at < results.length; at += 500) await home.device.api.post("/aidc/results", { results: results.slice(at, at + 500) });
  await home.admin.post(`/products/${home.product.id}/void`, { reason: "recalled" });
  const left = (await home.admin.get("/aidc/jobs?state=SCAN_VERIFIED")).body.data as { job_ref: string }[];
  expect(left).toHaveLength(2);
  for (const claim of claims.filter(({ job }) => left.some((one) => one.job_ref === job.job_ref)))
    expect(await home.device.say(claim, sealOf(goodItems(claim)))).toMatchObject(refused("STALE_ATTEMPT"));
  expect((await home.admin.get(`/aidc/jobs/${early.job.job_ref}`)).body.state).toBe("RENDERED"); // those that are further along end first
  expect(await home.device.say(early, spool)).toMatchObject(refused("STALE_ATTEMPT"));
});

test("voiding an item takes its serial along, though it was allocated under the model", async () => {
  const home = await printShop(w);
  const job = await home.issue();
  const item = (
    await home.admin.post("/products", {
      name: "This one kettle",
      description: "The kettle that was returned",
      category: "electronics",
      gtin: home.gtin,
      granularity: "item",
      serialNumber: job.serial,
      extensions: { energyEfficiencyClass: "A", weeeCategory: "small_equipment" },
    })
  ).body;
  expect((await home.admin.post(`/products/${item.id}/void`, { reason: "broken" })).status).toBe(200);
  expect((await home.admin.get(`/aidc/jobs/${job.job_ref}`)).body).toMatchObject({ state: "CANCELLED", reason: "SERIAL_VOIDED" });
  expect((await home.admin.get(`//01/${home.gtin}/21/${job.serial}`)).status).toBe(410);
  expect(await home.admin.post("/aidc/jobs", { gtin: home.gtin, serial: job.serial })).toEqual(refused("SERIAL_VOIDED", 410));
});

test("a product whose serials were in the print loop is not deleted", async () => {
  expect(await admin.delete(`/products/${shop.product.id}`)).toEqual(refused("PRODUCT_REFERENCED"));
});
