// API keys: minted with less than one has, refused with what is missing, rotated, revoked; secrets seen once.
import { expect, test } from "vitest";
import { world } from "../world.ts";

const w = await world();

test("a key with fewer scopes is minted, used, and refused with what it would need and what it has", async () => {
  const { status, body } = await w.admin.post("/api-keys", { name: "reader", scopes: ["products:read"] });
  expect(status).toBe(201);
  expect(body.data).toMatchObject({ name: "reader", scopes: ["products:read"], deviceId: null });
  expect(body.data.secret).toMatch(/^imp_[0-9a-z]{57}$/);
  const reader = w.as(body.data.secret);
  expect((await reader.get("/tenant")).body.name).toBe("default");
  const refused = await reader.get("/api-keys");
  expect(refused.status).toBe(403);
  expect(refused.body.error).toMatchObject({ code: "API_SCOPE_DENIED", details: { required: ["*:*"], available: ["products:read"] } });
});
