// The OpenAPI document of the app as it is, without listening or keeping anything.
import { startWorld } from "../../fixtures/world.ts";

export async function openApiDocument(): Promise<Record<string, unknown>> {
  const world = await startWorld();
  try {
    return (await world.nobody.get("/openapi.json")).body as Record<string, unknown>;
  } finally {
    await world.end();
  }
}
