// Security headers, cookies and caching of every answer there is: the table of routes with and without a credential, pages, files, refusals.
import { expect, test } from "vitest";
import { needsCredential, pathOf } from "../../cloud/route.ts";
import { routes } from "../../cloud/routes/index.ts";
import type { Answer } from "../../fixtures/client.ts";
import { world } from "../world.ts";

const w = await world();
const NOTHING = "default-src 'none';frame-ancestors 'none';base-uri 'none'";

/** What holds for whatever we say. */
function judge({ headers }: Answer): void {
  expect(headers.get("x-content-type-options")).toBe("nosniff");
  expect(headers.get("strict-transport-security")).toContain("max-age=");
  expect(headers.get("referrer-policy")).toBe("no-referrer");
  expect(headers.get("x-frame-options")).toBe("SAMEORIGIN");
  expect(headers.get("x-correlation-id")).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
  for (const name of ["server", "x-powered-by"]) expect(headers.get(name)).toBeNull();
  const policy = headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/unsafe-eval|script-src[^;]*(unsafe-inline|\*|https?:)/);
  if (headers.get("access-control-allow-origin")) expect(headers.get("access-control-allow-credentials")).toBeNull();
}

const table = routes.filter(({ endless }) => !endless).map((route) => [`${route.method} ${pathOf(route)}`, route] as const);
test.each(table)("%s", async (_name, route) => {
  const path = `/${pathOf(route)}`.replaceAll(/\{\w+\}/g, "1");
  for (const caller of [w.nobody, w.admin, w.as("nobody's key")]) {
    const answer = await caller.send(route.method, path, route.example === undefined ? {} : { json: route.example });
    judge(answer);
    expect(answer.headers.get("set-cookie") ?? "").toMatch(/^(imprimatur_console=; Max-Age=0; Path=\/; HttpOnly; SameSite=Strict)?$/);
    if (route.scope !== "public") expect(answer.headers.get("access-control-allow-origin")).toBeNull();
    if (needsCredential(route)) expect(answer.headers.get("cache-control")).toMatch(/^(private, |no-store$)/);
    if (answer.headers.get("content-type")?.includes("json")) expect(answer.headers.get("content-security-policy")).toBe(NOTHING);
  }
  judge(await w.admin.send("OPTIONS", path));
});

test.each(["/console", "/console/app.css", "/console/app.js", "/nowhere", "/console/../etc/passwd", "/01/1", "/p/1", "/metrics"])(
  "%s",
  async (path) => {
    const answer = await w.nobody.get(`/${path}`);
    judge(answer);
    expect(answer.status).toBeLessThan(500);
  },
);

test.each([
  ["a path that can't be decoded", "/%ff"],
  ["a part of a path that is too long", `/products/${"x".repeat(9_000)}`],
])("%s is answered, told and counted like any request", async (_what, path) => {
  const answer = await w.nobody.send("PUT", path);
  judge(answer);
  const { status } = answer;
  const problem = await w.nobody.send("PUT", path, { headers: { accept: "application/problem+json" } });
  expect(problem.headers.get("content-type")).toBe("application/problem+json; charset=utf-8");
  expect(problem.body).toMatchObject({ ...answer.body, status, title: answer.body.error.code, detail: answer.body.error.message });
  const line = { event: "request", requestId: answer.headers.get("x-correlation-id"), endpoint: "(none)", status, ms: expect.any(Number) };
  expect(w.logged().map((text) => JSON.parse(text) as object)).toContainEqual(expect.objectContaining(line));
  expect((await w.admin.get("/metrics")).text).toContain(`http_requests_total{method="PUT",endpoint="(none)",status="${status}"} 2`);
});

test("any web page may read what a stranger verifies with, and is told why where it can't; so may it what EN 18222 opens to all", async () => {
  const ids = "/v1/dppsByProductIds";
  const asked = [
    "/.well-known/did.json",
    "/.well-known/jwks.json",
    "/status/0",
    "/status/x",
    "/v1/dpps/1",
    "/v1/dppsByProductId/1",
    ids,
  ].map((path) => `/${path}`);
  for (const path of [...asked, "/log/checkpoint", "/log/proof?digest=x", "/log/consistency?from=1&to=1"]) {
    const preflight = await w.nobody.send("OPTIONS", path);
    const answer = path.endsWith(ids) ? await w.nobody.post(path, { productIds: ["1"] }) : await w.nobody.get(path);
    const method = path.endsWith(ids) ? "POST" : "GET";
    expect([path, preflight.status, answer.headers.get("access-control-allow-origin")]).toEqual([path, 204, "*"]);
    expect(preflight.headers.get("access-control-allow-methods")?.split(", ")).toContain(method);
    expect(answer.headers.get("cross-origin-resource-policy")).toBe("cross-origin");
    expect(answer.headers.get("access-control-expose-headers")?.split(", ")).toContain("Retry-After"); // else it can't know how long a 429 lasts
  }
  expect((await w.nobody.send("OPTIONS", `/${ids}`)).headers.get("access-control-allow-headers")).toContain("Content-Type");
});

test("the documentation page runs its own scripts and nothing else", async () => {
  const { headers } = await w.nobody.get("//docs/");
  expect(headers.get("content-security-policy")).not.toMatch(/unsafe-eval|script-src[^;]*\*/);
  expect(headers.get("x-content-type-options")).toBe("nosniff");
});

test("the one cookie there is can't be read by scripts nor sent by other sites, and its answer is kept nowhere", async () => {
  const secure = await world({ settings: { IMPRIMATUR_PUBLIC_URL: "https://floor.example" } });
  const { headers } = await secure.nobody.post("//console/session", { key: secure.adminKey });
  expect(headers.get("cache-control")).toBe("no-store");
  expect(headers.get("set-cookie")).toMatch(/^__Host-\w+=[\w-]{43}; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Strict; Secure$/);
});

test("answers that show a secret are kept by nobody on the way", async () => {
  for (const { replay, method, path, example, root } of routes.filter(
    (route) => route.replay && route.example !== undefined && !route.path.includes("{"),
  )) {
    if (path === "/oauth/token") continue; // its example names a client of another world; the journey of a token is tested with oauth
    const answer = await w.admin.send(method, (root ? "/" : "") + path, { json: example });
    expect([path, answer.status, answer.headers.get("cache-control"), Boolean(replay)]).toEqual([path, 201, "no-store", true]);
  }
});
