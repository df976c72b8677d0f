// Evidence: what each state's word has to bring, whose word counts, and what becomes of lies, pictures and stray labels.
import { hash } from "node:crypto";
import { sql } from "drizzle-orm";
import { describe, expect, test } from "vitest";
import { digestOf } from "#shared/canonical.ts";
import { limits } from "#shared/limits.ts";
import { judgeBundle } from "#shared/web/proof.ts";
import { eq } from "../../cloud/store/drizzle.ts";
import { orphans } from "../../cloud/store/schema.ts";
import { type Claim, goodItems, type Item, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";

const w = await world();
const shop = await printShop(w);
const { admin, device } = shop;
type Json = Record<string, unknown>;

/** A job that waits for the word of this state, and that word. */
async function waitingFor(status: string, more: Json = {}, home = shop): Promise<{ claimed: Claim; item: Item; said: Item[] }> {
  await home.issue({ priority: 1, ...more });
  const claimed = await home.device.claim({ lease_seconds: 600 }); // those that are left where they are come up for no later test
  const items = goodItems(claimed);
  const at = items.findIndex((item) => item.status === status);
  for (const item of items.slice(0, at < 0 ? items.length : at)) expect((await home.device.say(claimed, item)).status).toBe(200);
  return { claimed, item: items[at] ?? sealOf(items), said: items };
}
/** The item with some of its evidence changed. */
function changed({ status, evidence = {}, ...rest }: Item, changes: Json): Item {
  const [name = "", value] = Object.entries(evidence)[0] ?? [];
  return { status, ...rest, evidence: { [name]: { ...(value as Json), ...changes } } };
}

describe("a word without what it needs is refused, and the job stays where it is", () => {
  const codeOf = async (status: string, spoil: (item: Item, claimed: Claim) => Json) => {
    const { claimed, item } = await waitingFor(status);
    const before = (await admin.get(`/aidc/jobs/${claimed.job.job_ref}`)).body.state;
    const answer = await device.say(claimed, spoil(item, claimed));
    expect((await admin.get(`/aidc/jobs/${claimed.job.job_ref}`)).body.state).toBe(before);
    return [answer.status, answer.body.error.code, answer.body.error.details?.fields?.[0]?.field];
  };

  test.each(["RENDERED", "SPOOL_SUBMITTED", "PRINTED_ATTESTED", "SCAN_VERIFIED", "SEALED"])("%s without evidence", async (status) => {
    const [code, name] = await codeOf(status, ({ status }) => ({ status }));
    expect([code, name]).toEqual([422, "EVIDENCE_REQUIRED"]);
  });

  const wrong: [string, string, Json, string][] = [
    ["RENDERED", "another payload", { payload: "https://else.where/01/1" }, "evidence.render_manifest.payload"],
    ["RENDERED", "no digest", { sha256: undefined }, "evidence.render_manifest.sha256"],
    ["RENDERED", "half a dot", { width_dots: 406.5 }, "evidence.render_manifest.width_dots"],
    ["RENDERED", "another EPC", { epc: "3066C4409047E140075BCD15" }, "evidence.render_manifest.epc"],
    ["SPOOL_SUBMITTED", "no byte", { bytes: 0 }, "evidence.spool_receipt.bytes"],
    ["SPOOL_SUBMITTED", "an instant that isn't", { accepted_at: "yesterday" }, "evidence.spool_receipt.accepted_at"],
    ["PRINTED_ATTESTED", "a grade below B", { grade: "C" }, "evidence.completion.grade"],
    ["PRINTED_ATTESTED", "a spooler's completed", { basis: "spooler completed" }, "evidence.completion.basis"],
    ["PRINTED_ATTESTED", "a queue's completed", { basis: "cups completed" }, "evidence.completion.basis"],
    ["PRINTED_ATTESTED", "a job's state at a print server", { basis: "ipp job-state 9" }, "evidence.completion.basis"],
    ["PRINTED_ATTESTED", "how the printer is", { basis: "DLE EOT 1, DLE EOT 2" }, "evidence.completion.basis"],
    ["PRINTED_ATTESTED", "a printer without errors", { basis: "~HS no error" }, "evidence.completion.basis"],
    ["PRINTED_ATTESTED", "a connection that was closed", { basis: "tcp close" }, "evidence.completion.basis"],
    ["PRINTED_ATTESTED", "nothing at all", { basis: "none" }, "evidence.completion.basis"],
    ["PRINTED_ATTESTED", "counters that stood still", { before: { total: 5 }, after: { total: 5 } }, "evidence.completion.after"],
    [
      "PRINTED_ATTESTED",
      "a counter of another name that stood still",
      { before: { odometer: 5 }, after: { odometer: 5 } },
      "evidence.completion.after",
    ],
    ["PRINTED_ATTESTED", "a counter that stood still", { after: 100 }, "evidence.completion.after"],
    [
      "PRINTED_ATTESTED",
      "text that stood still",
      { before: { odometer: "5 in" }, after: { odometer: "5 in" } },
      "evidence.completion.after",
    ],
    [
      "PRINTED_ATTESTED",
      "a nested one that did",
      { before: { zd: { count: 5 } }, after: { zd: { count: 5 } } },
      "evidence.completion.after",
    ],
    ["PRINTED_ATTESTED", "labels told as text", { before: { labels: "5" }, after: { labels: "5" } }, "evidence.completion.before"],
    ["PRINTED_ATTESTED", "labels told only before", { before: 100, after: { odometer: 7 } }, "evidence.completion.after"],
    ["PRINTED_ATTESTED", "labels told only after", { before: { odometer: 7 }, after: { total: 101 } }, "evidence.completion.before"],
    ["PRINTED_ATTESTED", "a counter that moved by two without a void", { after: 102 }, "evidence.completion.after"],
    ["PRINTED_ATTESTED", "a counter that was read only before", { after: undefined }, "evidence.completion.after"],
    ["PRINTED_ATTESTED", "a counter that was read only after", { before: undefined }, "evidence.completion.before"],
    ["SCAN_VERIFIED", "an unknown source", { source: "ear" }, "evidence.scan_result.source"],
  ];
  test.each(wrong)("%s with %s", async (status, _what, changes, field) => {
    expect(await codeOf(status, (item) => changed(item, changes))).toEqual([422, "EVIDENCE_INVALID", field]);
  });

  test.each(["host-query fence and odometer", "GS r: queued response in order", "zpl-hv", "read-back"])(
    "an answer in order, %s, attests",
    async (basis) => {
      const { claimed, item } = await waitingFor("PRINTED_ATTESTED");
      expect((await device.say(claimed, changed(item, { basis }))).status).toBe(200);
    },
  );

  test("evidence of the wrong stage", async () => {
    expect(
      await codeOf("SPOOL_SUBMITTED", (_item, claimed) => ({ status: "SPOOL_SUBMITTED", evidence: goodItems(claimed)[0]?.evidence })),
    ).toEqual([422, "EVIDENCE_REQUIRED", "evidence.spool_receipt"]);
    const both = (item: Item, claimed: Claim) => ({ ...item, evidence: { ...item.evidence, ...goodItems(claimed)[0]?.evidence } });
    expect(await codeOf("SPOOL_SUBMITTED", both)).toEqual([422, "EVIDENCE_INVALID", "evidence.render_manifest"]);
  });

  const everything: [string, Json, string[]][] = [
    [
      "RENDERED",
      { payload: "https://else.where/01/1", epc: "3066C4409047E140075BCD15", sha256: undefined, dpi: "203" },
      ["render_manifest.dpi", "render_manifest.epc", "render_manifest.payload", "render_manifest.sha256"],
    ],
    ["RENDERED", { payload: 5, epc: 7 }, ["render_manifest.epc", "render_manifest.payload"]],
    [
      "PRINTED_ATTESTED",
      { grade: "C", basis: "spooler completed", before: 100, after: 100 },
      ["completion.after", "completion.basis", "completion.grade"],
    ],
    [
      "PRINTED_ATTESTED",
      { grade: "Z", basis: "spooler completed", before: { labels: "5" }, after: { labels: "6" } },
      ["completion.after", "completion.basis", "completion.before", "completion.grade"],
    ],
    ["PRINTED_ATTESTED", { basis: undefined, before: null, after: 101 }, ["completion.basis", "completion.before"]],
  ];
  test.each(everything)("%s with %o: all of it is told, and each field once", async (status, changes, fields) => {
    const { claimed, item } = await waitingFor(status);
    const { evidence, ...said } = changed(item, changes);
    const answer = await device.say(claimed, { ...said, evidence: { ...evidence, note: "of no stage" } });
    expect([answer.status, answer.body.error.code]).toEqual([422, "EVIDENCE_INVALID"]);
    const told = answer.body.error.details.fields.map(({ field }: { field: string }) => field);
    expect(told.toSorted()).toEqual([...fields, "note"].map((field) => `evidence.${field}`).toSorted());
  });

  test("more evidence than fits", async () => {
    const note = "x".repeat(70_000);
    expect(await codeOf("RENDERED", (item) => changed(item, { note }))).toEqual([422, "EVIDENCE_INVALID", "evidence"]);
    const failed = { status: "FAILED", reason: "jam", evidence: { note } };
    expect(await codeOf("RENDERED", () => failed)).toEqual([422, "EVIDENCE_INVALID", "evidence"]);
  });

  test("a failure without a reason", async () => {
    expect((await codeOf("RENDERED", () => ({ status: "FAILED" })))[1]).toBe("VALIDATION_ERROR");
  });

  test("a bundle whose digest isn't that of the evidence", async () => {
    const { claimed, said } = await waitingFor("SEALED");
    const other = sealOf(said.slice(1));
    const answer = await device.say(claimed, other);
    expect([answer.status, answer.body.error.code]).toEqual([422, "BUNDLE_MISMATCH"]);
    expect((await device.say(claimed, sealOf(said))).body.state).toBe("SEALED");
  });
});

test("of a job that nobody has claimed there is none, which isn't a fault", async () => {
  const { job_ref: ref } = await shop.issue();
  const { status, body } = await admin.get(`/aidc/jobs/${ref}/evidence`);
  expect([status, body.error?.code, (await admin.post(`/aidc/jobs/${ref}/cancel`)).status]).toEqual([404, "NOT_FOUND", 200]);
});

test("what an earlier attempt brought is there under its id, and what became of its label stands in the history", async () => {
  const { claimed, said } = await waitingFor("SCAN_VERIFIED");
  const [ref, first] = [claimed.job.job_ref, claimed.attempt_id];
  const label_disposition = { outcome: "destroyed", operator: "op-7" };
  const failed = { status: "FAILED", reason: "smudged", evidence: { label_disposition }, actor: { kind: "operator", id: "op-7" } };
  expect((await device.say(claimed, failed)).status).toBe(200);
  const again = await device.claim({ lease_seconds: 600 });
  expect(again.job.job_ref).toBe(ref);
  const of = async (query: string, api = admin) => (await api.get(`/aidc/jobs/${ref}/evidence${query}`)).body;
  const items = said.slice(0, 3);
  const earlier = { attempt_id: first, items, sha256: digestOf(items), proof: null };
  expect(await of(`?attempt_id=${first}`)).toEqual(earlier);
  expect(await of("")).toEqual({ attempt_id: again.attempt_id, items: [], sha256: digestOf([]), proof: null });
  for (const item of goodItems(again)) expect((await device.say(again, item)).status).toBe(200);
  expect((await device.say(again, sealOf(goodItems(again)))).body.state).toBe("SEALED");
  expect(await of(`?attempt_id=${first}`)).toEqual(earlier);
  expect(await of(`?attempt_id=${again.attempt_id}`)).toEqual(await of(""));
  expect((await of("")).proof).not.toBeNull();
  const told = (await admin.get(`/aidc/jobs/${ref}/history`)).body.data.filter((moment: Json) => "label_disposition" in moment);
  expect(told).toEqual([expect.objectContaining({ to: "FAILED", attempt_id: first, reason: "smudged", label_disposition })]);
  const { claimed: others } = await waitingFor("RENDERED");
  expect((await of(`?attempt_id=${others.attempt_id}`)).error.message).toBe(`the job has no attempt ${others.attempt_id}`);
  expect((await of(`?attempt_id=${first}`, (await printShop(w)).admin)).error.code).toBe("NOT_FOUND");
});

test("what was rendered may name the job's EPC in small letters", async () => {
  const { claimed, item } = await waitingFor("RENDERED", { needs: ["qr", "rfid"] });
  const epc = claimed.job.sgtin96_epc?.toLowerCase();
  expect((await device.say(claimed, changed(item, { epc }))).body.state).toBe("RENDERED");
});

test("the token that a printer echoed may be a number, as a spooler's id may", async () => {
  const { claimed, item } = await waitingFor("PRINTED_ATTESTED");
  const refused = await device.say(claimed, changed(item, { token: 1.5 }));
  expect(refused.body.error.details.fields[0].field).toBe("evidence.completion.token");
  expect((await device.say(claimed, changed(item, { token: 17 }))).body).toMatchObject({ state: "PRINTED_ATTESTED" });
});

test("a number of more digits than a number keeps is refused by its place, whatever evidence it stands in: another one would be sealed", async () => {
  for (const [status, name, number] of [
    ["RENDERED", "render_manifest.made.by.0", "106141412345678908"],
    ["SPOOL_SUBMITTED", "spool_receipt.spool_id", "9007199254740993"],
    ["PRINTED_ATTESTED", "completion.token", "-9007199254740993"],
    ["SCAN_VERIFIED", "scan_result.symbol_check.run", "123456789012345678901"],
  ] as const) {
    const { claimed, item } = await waitingFor(status);
    const say = (value: string) => {
      const own = name
        .split(".")
        .slice(1)
        .reduceRight<unknown>((inner, at) => (at === "0" ? [inner] : { [at]: inner }), "own");
      const body = JSON.stringify({ attempt_id: claimed.attempt_id, ...changed(item, own as Json) }).replace('"own"', value);
      return device.api.send("POST", `/aidc/jobs/${claimed.job.job_ref}/result`, { body, headers: { "content-type": "application/json" } });
    };
    const refused = await say(number);
    expect([refused.status, refused.body.error]).toMatchObject([
      422,
      { code: "EVIDENCE_INVALID", details: { fields: [{ field: `evidence.${name}`, rule: "number" }] } },
    ]);
    expect((await say("9007199254740991")).body).toMatchObject({ state: status });
  }
});

test("such a number is refused in what is said of a stray label, too, and under a name however long in whole characters", async () => {
  const { claimed, item } = await waitingFor("RENDERED");
  const { attempt_id, job } = claimed;
  const say = (path: string, body: Json) => {
    const init = { body: JSON.stringify(body).replace('"own"', "9007199254740993"), headers: { "content-type": "application/json" } };
    return device.api.send("POST", path, init);
  };
  const label = { job_ref: job.job_ref, attempt_id, disposition: "found", actor: { kind: "operator", id: "op-7" } };
  const stray = await say("/aidc/orphans", { ...label, evidence: { tag: { tid: "own" } } });
  expect([stray.status, stray.body.error]).toMatchObject([
    422,
    { code: "EVIDENCE_INVALID", details: { fields: [{ field: "evidence.tag.tid", rule: "number" }] } },
  ]);
  for (const name of ["", "a"].map((begin) => begin + "😀".repeat(limits.FAULT_FIELD_MAX_LENGTH))) {
    const { body } = await say(`/aidc/jobs/${job.job_ref}/result`, { attempt_id, ...changed(item, { [name]: "own" }) });
    const [{ field, rule }] = body.error.details.fields;
    expect([rule, field.isWellFormed(), field.slice(0, 25 + name.indexOf("😀"))]).toEqual([
      "number",
      true,
      `evidence.render_manifest.${name.split("😀")[0]}`,
    ]);
  }
});

test("a void label that the counter saw is explained by saying so", async () => {
  const { claimed, item } = await waitingFor("PRINTED_ATTESTED");
  expect((await device.say(claimed, changed(item, { after: 103, voids: 2 }))).body.state).toBe("PRINTED_ATTESTED");
});

describe("a scan verifies only this job's link", () => {
  const scanOf = async (decoded: (link: string) => string, rfid?: (epc: string) => object, needs = ["qr"]) => {
    const { claimed, item } = await waitingFor("SCAN_VERIFIED", { needs });
    const changes = { decoded: decoded(claimed.job.digital_link), ...(rfid ? { rfid: rfid(claimed.job.sgtin96_epc ?? "") } : {}) };
    const answer = await device.say(claimed, changed(item, changes));
    return answer.body.error?.code ?? answer.body.state;
  };
  const flip = (text: string, at: number) => text.slice(0, at) + (text[at] === "7" ? "8" : "7") + text.slice(at + 1);

  test("as it is, with a slash behind it, with a query", async () => {
    expect(await scanOf((link) => link)).toBe("SCAN_VERIFIED");
    expect(await scanOf((link) => `${link}/`)).toBe("SCAN_VERIFIED");
    expect(await scanOf((link) => `${link}?17=301231`)).toBe("SCAN_VERIFIED");
  });

  test("in every spelling that the resolver reads as the same GTIN and serial", async () => {
    expect(await scanOf((link) => link.replace("/21/", "/10/L%2F7/21/"))).toBe("SCAN_VERIFIED");
    expect(await scanOf((link) => link.replace("/21/", "/%32%31/"))).toBe("SCAN_VERIFIED");
    expect(await scanOf((link) => link.replace("/21/", "/10/"))).toBe("SCAN_MISMATCH");
    expect(await scanOf((link) => link.replace("/01/", "/02/"))).toBe("SCAN_MISMATCH");
    const unfit = ["21=5", "01=04006381333931", "17=301231&17=301231"]; // the resolver answers these 400
    for (const query of unfit) expect(await scanOf((link) => `${link}?${query}`)).toBe("SCAN_MISMATCH");
    expect(await scanOf((link) => `${link}?17=301231&from=shelf%203#top`)).toBe("SCAN_VERIFIED");
  });

  test("not with one character changed, wherever it is", async () => {
    const { claimed, item } = await waitingFor("SCAN_VERIFIED");
    const link = claimed.job.digital_link;
    for (let at = 0; at < link.length; at += 5) {
      const answer = await device.say(claimed, changed(item, { decoded: flip(link, at) }));
      expect([flip(link, at), answer.status, answer.body.error?.code]).toEqual([flip(link, at), 422, "SCAN_MISMATCH"]);
    }
  });

  test.each(["", "%", "ps://id.example.com", "]Q1", "\u202e", "https://[", "javascript:alert(1)"])("not %j", async (decoded) => {
    expect(await scanOf(() => decoded)).toBe(decoded === "" ? "EVIDENCE_INVALID" : "SCAN_MISMATCH");
  });

  test("with RFID, only where the tag says the same", async () => {
    const needs = ["qr", "rfid"];
    const tag = (epc: string) => ({ epc, reader: "independent" });
    expect(
      await scanOf(
        (link) => link,
        (epc) => tag(epc.toLowerCase()),
        needs,
      ),
    ).toBe("SCAN_VERIFIED");
    expect(
      await scanOf(
        (link) => link,
        (epc) => tag(flip(epc, 23)),
        needs,
      ),
    ).toBe("SCAN_MISMATCH");
    const { claimed, item } = await waitingFor("SCAN_VERIFIED", { needs });
    expect((await device.say(claimed, changed(item, { rfid: undefined }))).body.error.code).toBe("SCAN_MISMATCH");
  });

  test("a tag that the job doesn't need is kept and not judged: some rolls have them, and some tenants no EPCs", async () => {
    const blank = { epc: "E28011700000020F1234ABCD", reader: "printer" };
    expect(await scanOf(String, () => blank)).toBe("SCAN_VERIFIED");
    const bare = await printShop(w, { prefixes: [] });
    const { claimed, item, said } = await waitingFor("SCAN_VERIFIED", {}, bare);
    expect(claimed.job.sgtin96_epc).toBe(null);
    const scan = changed(item, { rfid: blank });
    expect((await bare.device.say(claimed, scan)).body.state).toBe("SCAN_VERIFIED");
    expect((await bare.device.say(claimed, sealOf([...said.slice(0, -1), scan]))).body.state).toBe("SEALED");
  });
});

describe("who attests", () => {
  test("an operator needs a name and no completion; a device a completion and its own key", async () => {
    const { claimed, item } = await waitingFor("PRINTED_ATTESTED");
    const say = async (word: Json, by = device) => (await by.say(claimed, { status: "PRINTED_ATTESTED", ...word })).body;
    expect((await say({ actor: { kind: "operator" } })).error.code).toBe("EVIDENCE_REQUIRED");
    expect((await say({ actor: { kind: "device" } })).error.code).toBe("EVIDENCE_REQUIRED");
    const asDevice = { attempt_id: claimed.attempt_id, ...item };
    expect((await admin.post(`/aidc/jobs/${claimed.job.job_ref}/result`, asDevice)).body.error.code).toBe("DEVICE_KEY_REQUIRED");
    expect((await say({ actor: { kind: "operator", id: "op-7" } })).state).toBe("PRINTED_ATTESTED");
  });

  test("another device's word on the attempt is stale, though its key is good", async () => {
    const { claimed, item } = await waitingFor("RENDERED");
    const other = await shop.newDevice("line 2");
    expect((await other.say(claimed, item)).body.error.code).toBe("STALE_ATTEMPT");
    expect((await other.api.post(`/aidc/jobs/${claimed.job.job_ref}/heartbeat`, { attempt_id: claimed.attempt_id })).body.error.code).toBe(
      "STALE_ATTEMPT",
    );
    expect((await device.say(claimed, item)).status).toBe(200);
  });
});

test("what simulated devices say seals labels in a sandbox and nowhere else", async () => {
  const home = await printShop(w, { sandbox: false });
  for (const [where, outcome] of [
    [shop, "SEALED"],
    [home, "SIMULATED_EVIDENCE"],
  ] as const) {
    await where.issue({ priority: 1 });
    const claimed = await where.device.claim();
    const items = goodItems(claimed, true);
    for (const item of items) expect((await where.device.say(claimed, item)).status).toBe(200);
    const answer = await where.device.say(claimed, sealOf(items));
    expect(answer.body.error?.code ?? answer.body.state).toBe(outcome);
  }
});

test("what a simulated device said of an attempt that failed is no word on the next one, which a real printer made", async () => {
  const home = await printShop(w, { sandbox: false });
  await home.issue();
  const played = await home.device.claim();
  for (const item of goodItems(played, true).slice(0, 1)) expect((await home.device.say(played, item)).status).toBe(200);
  expect((await home.device.say(played, { status: "FAILED", reason: "moved to a real printer" })).status).toBe(200);
  expect((await home.device.seal(await home.device.claim())).body.state).toBe("SEALED");
});

describe("500 results at once", () => {
  test("each has its outcome, the good ones stand, in order", async () => {
    await shop.issue({ priority: 2 });
    await shop.issue({ priority: 1 });
    const [one, two] = [await device.claim({ lease_seconds: 600 }), await device.claim({ lease_seconds: 600 })];
    const results = (claimed: Claim, items: Item[]) =>
      items.map((item, i) => ({
        job_ref: claimed.job.job_ref,
        attempt_id: claimed.attempt_id,
        idempotency_key: `${claimed.attempt_id}/${i}`,
        ...item,
      }));
    const all = goodItems(one);
    const sent = [
      ...results(one, all),
      ...results(two, goodItems(two).slice(1)),
      { job_ref: one.job.job_ref, attempt_id: two.attempt_id, status: "RENDERED" },
      { job_ref: "pj_00000000000000000000000000", attempt_id: one.attempt_id, status: "RENDERED" },
      { nonsense: true },
      null,
      ...results(one, [sealOf(all)]).map((item) => ({ ...item, idempotency_key: "seal" })),
    ];
    const { results: outcomes } = (await device.api.post("/aidc/results", { results: sent })).body;
    expect(outcomes.map((o: Json) => o["index"])).toEqual(sent.map((_, i) => i));
    const codes = outcomes.map((o: { status: number; error?: { code: string }; job?: { state: string } }) => o.error?.code ?? o.job?.state);
    expect(codes).toEqual([
      "RENDERED",
      "SPOOL_SUBMITTED",
      "PRINTED_ATTESTED",
      "SCAN_VERIFIED",
      "ILLEGAL_TRANSITION",
      "ILLEGAL_TRANSITION",
      "ILLEGAL_TRANSITION",
      "STALE_ATTEMPT",
      "NOT_FOUND",
      "VALIDATION_ERROR",
      "VALIDATION_ERROR",
      "SEALED",
    ]);
    const again = (await device.api.post("/aidc/results", { results: sent })).body.results;
    expect(again[0]).toEqual(outcomes[0]); // as it was answered then, though the job went on
    for (const other of [{ status: "FAILED", reason: "x" }, { job_ref: two.job.job_ref }]) {
      const { results: refused } = (await device.api.post("/aidc/results", { results: [{ ...sent[0], ...other }] })).body;
      expect(refused[0].error?.code).toBe("IDEMPOTENCY_CONFLICT");
    }
  });

  test("in however many calls a label's life is told, with words among them that are refused, the same is on record", async () => {
    const splits = [[5], [1, 4], [2, 3], [3, 1, 1], [4, 1], [1, 1, 1, 1, 1]];
    const records: unknown[][][] = [];
    for (const split of splits) {
      const { claimed } = await waitingFor("RENDERED");
      const path = `/aidc/jobs/${claimed.job.job_ref}`;
      const all = goodItems(claimed);
      const words = [...all, sealOf(all)].map((item) => ({ job_ref: claimed.job.job_ref, attempt_id: claimed.attempt_id, ...item }));
      const tooEarly = (at: number) => (at < 3 ? [{ word: words[4], status: 409 }] : []);
      for (const [i, count] of split.entries()) {
        const from = split.slice(0, i).reduce((sum, one) => sum + one, 0);
        const told = words
          .map((word, at) => [{ word, status: 200 }, ...tooEarly(at), { word, status: 200 }])
          .slice(from, from + count)
          .flat();
        const { results } = (await device.api.post("/aidc/results", { results: told.map(({ word }) => word) })).body;
        expect(results.map(({ status }: { status: number }) => status)).toEqual(told.map(({ status }) => status));
        const { state } = (await admin.get(path)).body;
        expect(state).toBe(words[from + count - 1]?.status);
        if (state !== "SEALED") expect((await device.api.post(`${path}/heartbeat`, { attempt_id: claimed.attempt_id })).status).toBe(200);
      }
      const { data } = (await admin.get(`${path}/history`)).body;
      const evidence = (await admin.get(`${path}/evidence`)).body;
      expect(evidence.proof).not.toBeNull();
      expect(evidence.sha256).toBe(digestOf(evidence.items));
      records.push([
        data.map(({ from, to, attempt, actor }: Json) => [from, to, attempt, actor]),
        evidence.items.map(({ status }: Item) => status),
      ]);
    }
    expect(records).toEqual(splits.map(() => records[0]));
    expect(records[0]?.[0]).toHaveLength(7);
  });

  test("that use one key for two jobs: the first of them in order has it", async () => {
    const [a, b] = [(await waitingFor("RENDERED")).claimed, (await waitingFor("RENDERED")).claimed];
    const word = (claimed: Claim, at: number) => ({
      job_ref: claimed.job.job_ref,
      attempt_id: claimed.attempt_id,
      ...goodItems(claimed)[at],
    });
    const key = { idempotency_key: a.attempt_id };
    const sent = [word(a, 0), { ...word(b, 0), ...key }, { ...word(a, 1), ...key }];
    const { results } = (await device.api.post("/aidc/results", { results: sent })).body;
    const said = results.map(({ job, error }: { job?: Json; error?: Json }) => error?.["code"] ?? job?.["state"]);
    expect(said).toEqual(["RENDERED", "RENDERED", "IDEMPOTENCY_CONFLICT"]);
  });

  test("one that is malformed takes no key: put right, it is taken", async () => {
    const { claimed } = await waitingFor("RENDERED");
    const item = { job_ref: claimed.job.job_ref, attempt_id: claimed.attempt_id, status: "FAILED", idempotency_key: claimed.attempt_id };
    const say = async (more: object) => (await device.api.post("/aidc/results", { results: [{ ...item, ...more }] })).body.results[0];
    expect((await say({})).error.code).toBe("VALIDATION_ERROR");
    expect((await say({ reason: "ribbon out" })).job.state).toBe("FAILED");
  });

  test("many batches about the same jobs, crosswise, are all taken", async () => {
    const home = await printShop(w);
    const items = (await home.allocate(30)).map((serial) => ({ gtin: home.gtin, serial }));
    await home.admin.post("/aidc/jobs/batch", { items });
    const { claims } = (await home.device.api.post("/aidc/jobs/claim/batch", { max: 30 })).body as { claims: Claim[] };
    const rendered = claims.map((claimed) => ({ job_ref: claimed.job.job_ref, attempt_id: claimed.attempt_id, ...goodItems(claimed)[0] }));
    const send = async (results: object[]) => (await home.device.api.post("/aidc/results", { results })).body;
    const answers = await Promise.all(Array.from({ length: 16 }, (_, i) => send(i % 2 === 0 ? rendered : rendered.toReversed())));
    expect(new Set(answers.flatMap(({ results }) => results.map(({ status }: { status: number }) => status)))).toEqual(new Set([200]));
    const { data } = (await home.admin.get(`/aidc/jobs/${rendered[0]?.job_ref}/history`)).body;
    expect(data).toHaveLength(3);
  });

  test("what is wrong with one is told in the words of a result that is sent alone", async () => {
    const { claimed, item } = await waitingFor("RENDERED");
    const unfit = { ...item, attempt_id: claimed.attempt_id, status: "DONE", reason: 7, color: "red" };
    const alone = (await device.api.post(`/aidc/jobs/${claimed.job.job_ref}/result`, unfit)).body.error;
    const { results } = (await device.api.post("/aidc/results", { results: [{ job_ref: claimed.job.job_ref, ...unfit }, null] })).body;
    expect(results[0]).toEqual({ index: 0, status: 400, error: alone });
    expect(alone.details.fields.map(({ field }: { field: string }) => field).toSorted()).toEqual(["color", "reason", "status"]);
    expect(results[1].error.details.fields).toMatchObject([{ field: "body", rule: "type" }]);
  });

  test("501 are too many, none too few", async () => {
    for (const results of [[], Array.from({ length: 501 }, () => ({}))])
      expect((await device.api.post("/aidc/results", { results })).status).toBe(400);
  });
});

test("a device is told of by the id that its key is bound to, whatever it calls itself", async () => {
  const { claimed, item } = await waitingFor("RENDERED");
  expect((await device.say(claimed, { ...item, actor: { kind: "device", id: "line-7" } })).status).toBe(200);
  const { data } = (await admin.get(`/aidc/jobs/${claimed.job.job_ref}/history`)).body;
  expect(data.at(-1).actor).toEqual({ kind: "device", id: device.id });
  const { items } = (await admin.get(`/aidc/jobs/${claimed.job.job_ref}/evidence`)).body;
  expect(items[0].actor).toEqual({ kind: "device", id: "line-7" }); // its word stays as it was sent
});

test("what a station's clock says is kept and decides nothing", async () => {
  const { claimed, item } = await waitingFor("RENDERED");
  const beat = async () =>
    Date.parse(
      (await device.api.post(`/aidc/jobs/${claimed.job.job_ref}/heartbeat`, { attempt_id: claimed.attempt_id })).body.lease.expires_at,
    );
  const before = await beat();
  const hourAgo = new Date(Date.now() - 3_600_000).toISOString();
  const elsewhere = `${new Date(Date.parse(hourAgo) + 7_200_000).toISOString().slice(0, -1)}+02:00`; // the same instant, told in another zone
  expect((await device.say(claimed, { ...item, occurred_at: elsewhere })).status).toBe(200);
  const { data } = (await admin.get(`/aidc/jobs/${claimed.job.job_ref}/history`)).body;
  expect(data.at(-1)).toMatchObject({ to: "RENDERED", occurred_at: hourAgo });
  expect(await beat()).toBeGreaterThanOrEqual(before);
});

test("sealed evidence that was changed in the store is shown with what was sealed, and with the word that they differ", async () => {
  const home = await printShop(w);
  const { job_ref: ref } = await home.issue();
  await home.device.seal(await home.device.claim());
  const read = async () => (await home.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
  const sealed = await read();
  const change = (from: string, to: string) =>
    w.store.write("tamper", ({ db }) => db.run(sql`UPDATE print_events SET item = replace(item, ${from}, ${to}) WHERE job_ref = ${ref}`));
  await change("and odometer", "and abacus");
  const items = structuredClone(sealed.items);
  items[2].evidence.completion.basis = "host-query fence and abacus";
  const sha256 = digestOf(items);
  const fault = expect.stringContaining(`the items give the digest ${sha256}, and ${sealed.sha256} was sealed`);
  const changed = await read();
  expect(changed).toEqual({ ...sealed, items, sha256, proof: { ...sealed.proof, checkpoint: expect.any(String) }, fault });
  expect((await judgeBundle(changed, { keys: [], pictureOf: async () => undefined })).find(({ name }) => name === "entry")?.outcome).toBe(
    "broken",
  );

  await change(sealed.sha256, sha256); // and the word of the seal with them
  const denied = await read();
  expect(denied).toEqual({ ...changed, proof: null, fault: expect.stringContaining(`${sha256}, isn't in the log`) });
  expect((await judgeBundle(denied, { keys: [], pictureOf: async () => undefined })).at(-1)).toEqual({ name: "entry", outcome: "broken" });
});

test("evidence that was sealed for one label and stands at another's job in the store is shown with the word that it is of another", async () => {
  const home = await printShop(w);
  const sealOne = async () => {
    const { job_ref: ref } = await home.issue();
    const claimed = await home.device.claim();
    await home.device.seal(claimed);
    return { ref, attempt: claimed.attempt_id, link: claimed.job.digital_link };
  };
  const [one, other] = [await sealOne(), await sealOne()];
  const read = async () => (await home.admin.get(`/aidc/jobs/${one.ref}/evidence`)).body;
  expect((await read()).fault).toBeUndefined();
  const change = (statement: ReturnType<typeof sql>) => w.store.write("tamper", ({ db }) => db.run(statement));
  await change(sql`UPDATE print_jobs SET serial = '4711' WHERE job_ref = ${one.ref}`);
  expect((await read()).fault).toContain(
    `of the label ${one.link}, and the job is of another: ${one.link}, GTIN ${home.gtin}, serial 4711`,
  );
  await change(sql`DELETE FROM print_events WHERE job_ref = ${one.ref}`);
  await change(sql`UPDATE print_events SET job_ref = ${one.ref} WHERE job_ref = ${other.ref}`);
  await change(sql`UPDATE print_jobs SET attempt_id = ${other.attempt} WHERE job_ref = ${one.ref}`);
  const swapped = await read();
  expect(swapped.fault).toContain(`of the label ${other.link}, and the job is of another: ${one.link}`);
  const checks = await judgeBundle(swapped, { keys: [], pictureOf: async () => undefined }); // the bundle itself holds: it was sealed, for the other
  expect(checks).toContainEqual({ name: "entry", outcome: "broken" });
});

test("a job whose evidence is of simulated devices and that doesn't say so in the store is shown with the word that it is", async () => {
  const home = await printShop(w);
  const { job_ref: ref } = await home.issue();
  const claimed = await home.device.claim();
  const items = goodItems(claimed, true);
  for (const item of [...items, sealOf(items)]) expect((await home.device.say(claimed, item)).status).toBe(200);
  const read = async () => (await home.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
  expect((await read()).fault).toBeUndefined();
  await w.store.write("tamper", ({ db }) => db.run(sql`UPDATE print_jobs SET simulated = 0 WHERE job_ref = ${ref}`));
  expect((await read()).fault).toContain("of simulated devices, and the job says that it isn't");
});

describe("pictures", () => {
  const put = (name: string, bytes: Buffer<ArrayBuffer>, type = "image/png") =>
    device.api.send("PUT", `/aidc/evidence/${name}`, { body: bytes, headers: { "content-type": type } });

  test("are kept once under their digest and read back byte by byte", async () => {
    const bytes = Buffer.from([0, 255, 1, 254, ...Buffer.from("ünï")]);
    const name = hash("sha256", bytes);
    const first = await Promise.all(Array.from({ length: 8 }, () => put(name, bytes)));
    expect(first.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(first.filter(({ status }) => status === 200)).toHaveLength(7);
    const answer = await fetch(`${w.url}/api/v2/aidc/evidence/${name}`, { headers: { authorization: `Bearer ${device.secret}` } });
    expect([answer.status, answer.headers.get("content-type"), Buffer.from(await answer.arrayBuffer())]).toEqual([200, "image/png", bytes]);
    const other = await printShop(w);
    expect((await other.admin.get(`/aidc/evidence/${name}`)).status).toBe(404);
  });

  test("may come without a word of what they are, as many clients send bytes", async () => {
    const bytes = Buffer.from("bytes of no type");
    const name = hash("sha256", bytes);
    const url = `${w.url}/api/v2/aidc/evidence/${name}`;
    const headers = { authorization: `Bearer ${device.secret}` };
    expect((await fetch(url, { method: "PUT", body: bytes, headers })).status).toBe(201);
    expect((await fetch(url, { headers })).headers.get("content-type")).toBe("application/octet-stream");
  });

  test("are refused with a digest that lies, beyond 2 MiB, or as another type", async () => {
    const bytes = Buffer.from("a picture");
    const { code, details } = (await put(hash("sha256", "another"), bytes)).body.error;
    expect([code, details.fields[0].field]).toEqual(["EVIDENCE_INVALID", "sha256"]);
    expect((await put("xyz", bytes)).status).toBe(400);
    const huge = Buffer.alloc(2 * 1024 * 1024 + 1);
    expect((await put(hash("sha256", huge), huge)).status).toBe(413);
    expect((await put(hash("sha256", bytes), bytes, "text/html")).status).toBe(415);
  });
});

describe("orphans", () => {
  test("are listed until they are destroyed, and what is destroyed stays so", async () => {
    const { claimed } = await waitingFor("PRINTED_ATTESTED");
    await device.say(claimed, { status: "FAILED", reason: "lost the printer" });
    expect((await admin.get(`/aidc/jobs/${claimed.job.job_ref}`)).body.duplicate_risk).toBe(true);
    const say = (disposition: string, note = "came out late") =>
      device.api.post("/aidc/orphans", {
        job_ref: claimed.job.job_ref,
        attempt_id: claimed.attempt_id,
        evidence: { note },
        disposition,
        actor: { kind: "operator", id: "op-7" },
      });
    const listed = async () => (await admin.get("/aidc/orphans")).body.data.map((orphan: Json) => orphan["attempt_id"]);
    expect((await say("found")).status).toBe(201);
    expect(await listed()).toContain(claimed.attempt_id);
    const destroyed = { disposition: "destroyed", evidence: { note: "shredded" } };
    expect((await say("destroyed", "shredded")).body).toMatchObject(destroyed);
    expect((await say("found")).body).toMatchObject(destroyed);
    expect(await listed()).not.toContain(claimed.attempt_id);
    expect((await admin.get(`/aidc/jobs/${claimed.job.job_ref}`)).body.duplicate_risk).toBe(false);
  });

  test("take no more evidence than a result does, and a page of them ends by its bytes, so that a list of them stays one that can be sent", async () => {
    const home = await printShop(w);
    const { claimed } = await waitingFor("RENDERED", {}, home);
    const say = (bytes: number) =>
      home.device.api.post("/aidc/orphans", {
        job_ref: claimed.job.job_ref,
        attempt_id: claimed.attempt_id,
        evidence: { note: "x".repeat(bytes - '{"note":""}'.length) },
        disposition: "found",
        actor: { kind: "device" },
      });
    const { status, body } = await say(limits.EVIDENCE_MAX_BYTES + 1);
    expect([status, body.error?.code, body.error?.details.fields[0].field]).toEqual([422, "EVIDENCE_INVALID", "evidence"]);
    expect((await say(limits.EVIDENCE_MAX_BYTES)).status).toBe(201);
    await w.store.write("more of them", async ({ db }) => {
      const [one] = await db.select().from(orphans).where(eq(orphans.tenantId, home.tenantId));
      const alike = (n: number) => ({
        ...(one as typeof orphans.$inferSelect),
        id: `01900000-0000-7000-8000-${String(n).padStart(12, "0")}`,
        attemptId: `${n}`,
      });
      await db.insert(orphans).values(Array.from({ length: 130 }, (_, n) => alike(n)));
    });
    const page = async (cursor = "") => (await home.admin.get(`/aidc/orphans?limit=200${cursor}`)).body;
    const { data, nextCursor } = await page();
    expect([data.length, (await page(`&cursor=${nextCursor}`)).data.length]).toEqual([
      limits.PAGE_MAX_BYTES / limits.EVIDENCE_MAX_BYTES,
      3,
    ]);
  });

  test("of an attempt that never was are not taken", async () => {
    const { claimed } = await waitingFor("RENDERED");
    const orphan = {
      job_ref: claimed.job.job_ref,
      attempt_id: "019a0000-0000-7000-8000-000000000000",
      evidence: {},
      disposition: "found",
      actor: { kind: "device" },
    };
    expect((await device.api.post("/aidc/orphans", orphan)).status).toBe(404);
  });
});
