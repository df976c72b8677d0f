// A credential judged without a cloud: when it counts, what shape it must have, and that nothing unchecked makes it valid.
import { expect, onTestFinished, test, vi } from "vitest";
import { judgeIssuer, judgeSchema, judgeSignature, judgeValidity, openCredential, verdictOf } from "#shared/credential.ts";
import { partsOf, signedBy, stranger, tampered } from "../../fixtures/forge.ts";

const { privateKey, publicKey } = stranger();
const did = "did:web:dpp.example";
const payload = {
  "@context": ["https://www.w3.org/ns/credentials/v2", "https://test.uncefact.org/vocabulary/untp/dpp/0.6.0/"],
  type: ["DigitalProductPassport", "VerifiableCredential"],
  id: "https://dpp.example/p/1#v1",
  issuer: { id: did, name: "X" },
  validFrom: "2026-01-01T00:00:00.000Z",
  validUntil: "2026-12-31T00:00:00.000Z",
  credentialSubject: { granularityLevel: "item", product: { id: "https://dpp.example/01/1", name: "P" } },
};
const made = (more: Record<string, unknown> = {}) =>
  signedBy(privateKey, { header: { alg: "EdDSA", typ: "vc+jwt", kid: `${did}#k` }, payload: { ...payload, ...more } });
const at = (text: string) => Date.parse(text);

test.each([
  ["2025-12-31T23:54:59.999Z", {}, "failed"],
  ["2025-12-31T23:55:00.000Z", {}, "passed"], // by a clock that is slow
  ["2026-01-01T00:00:00.000Z", {}, "passed"],
  ["2026-12-30T23:59:59.999Z", {}, "passed"],
  ["2026-12-31T00:00:00.000Z", {}, "failed"],
  ["2030-01-01T00:00:00.000Z", { validUntil: undefined }, "passed"],
  ["2026-06-01T00:00:00.000Z", { validFrom: "soon" }, "failed"],
  ["2026-06-01T00:00:00.000Z", { validUntil: 5 }, "failed"],
  ["2026-06-01T00:00:00.000Z", { validFrom: "5" }, "failed"],
  ["2026-06-01T00:00:00.000Z", { validFrom: "1 January 2026" }, "failed"],
  ["2026-06-01T00:00:00.000Z", { validFrom: "2026-01-01" }, "failed"],
  ["2026-06-01T00:00:00.000Z", { validFrom: { toString: "x" } }, "failed"],
])("at %s with %o its validity has %s", async (now, more, outcome) => {
  expect(judgeValidity(await openCredential(made(more)), at(now)).outcome).toBe(outcome);
});

test("an instant that names no offset is one of UTC, whichever zone the machine stands in", async () => {
  const zone = process.env["TZ"];
  onTestFinished(() => {
    if (zone === undefined) delete process.env["TZ"];
    else process.env["TZ"] = zone;
  });
  const opened = await openCredential(made({ validFrom: "2026-01-01T00:00:00" }));
  for (const TZ of ["America/Los_Angeles", "Pacific/Kiritimati"]) {
    process.env["TZ"] = TZ;
    const outcomes = ["2025-12-31T23:54:59Z", "2026-01-01T00:00:00Z"].map((now) => judgeValidity(opened, at(now)).outcome);
    expect([TZ, ...outcomes]).toEqual([TZ, "failed", "passed"]);
  }
});

test.each([
  [{}, "passed"],
  [{ "@context": ["https://www.w3.org/2018/credentials/v1"] }, "failed"],
  [{ "@context": [] }, "failed"],
  [{ type: ["DigitalProductPassport"] }, "failed"],
  [{ issuer: did }, "failed"], // a passport's issuer has a name
  [{ type: ["VerifiableCredential"], issuer: did, credentialSubject: {} }, "passed"],
  [{ credentialSubject: { granularityLevel: "box", product: payload.credentialSubject.product } }, "failed"],
  [{ credentialSubject: { granularityLevel: "item" } }, "failed"],
  [{ credentialSubject: { ...payload.credentialSubject, conformityClaim: "of before this was asked" } }, "passed"],
])("with %o its shape has %s", async (more, outcome) => {
  expect((await judgeSchema(await openCredential(made(more)))).outcome).toBe(outcome);
});

test("every bit of what is signed counts, and the key must be the issuer's own", async () => {
  const good = made();
  const judge = async (jws: string) => (await judgeSignature(jws, await openCredential(jws), publicKey)).outcome;
  expect(await judge(good)).toBe("passed");
  expect(await judge(tampered(good, ({ header }) => ({ header, payload: { ...payload, id: "y" } })))).toBe("failed");
  expect(await judge(tampered(good, (parts) => ({ ...parts, header: { ...parts.header, kid: `${did}#other` } })))).toBe("failed");
  const opened = await openCredential(good);
  expect(judgeIssuer(opened, did).outcome).toBe("passed");
  expect(judgeIssuer(opened, "did:web:other").outcome).toBe("unknown");
  expect(judgeIssuer({ ...opened, kid: "did:web:dpp.example.evil#k" }, did).outcome).toBe("failed");
  expect(judgeIssuer({ ...opened, issuer: undefined }, did).outcome).toBe("failed");
  expect(partsOf(good).payload["id"]).toBe(payload.id);
});

test("one failure is invalid, one doubt is unknown, and only all together are valid", () => {
  const check = (outcome: "passed" | "failed" | "unknown") => ({ name: "status" as const, outcome, message: "" });
  expect(verdictOf([check("passed"), check("passed")])).toBe("valid");
  expect(verdictOf([check("passed"), check("unknown")])).toBe("unknown");
  expect(verdictOf([check("unknown"), check("failed")])).toBe("invalid");
});

test("a credential of very many contexts or types isn't looked through", async () => {
  const many = ["https://www.w3.org/ns/credentials/v2", ...Array.from({ length: 100 }, () => "x")];
  for (const [name, words] of [
    ["@context", "101 contexts"],
    ["type", "101 types"],
  ] as const) {
    const { outcome, message } = await judgeSchema(await openCredential(made({ [name]: many })));
    expect([outcome, message]).toEqual(["failed", expect.stringContaining(words)]);
  }
});

test("what has a million parts is no credential, which a few of them show", async () => {
  const read = vi.spyOn(Buffer, "from");
  onTestFinished(() => read.mockRestore());
  await expect(openCredential(".".repeat(1_000_000))).rejects.toThrow();
  expect(read.mock.calls.length).toBeLessThan(100);
});
