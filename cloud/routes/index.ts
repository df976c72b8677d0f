// The table of contents: every endpoint there is.
import type { Route } from "../route.ts";
import { apiKeys } from "./api-keys.ts";
import { auditLogs } from "./audit-logs.ts";
import { carriers } from "./carriers.ts";
import { floorConsole } from "./console.ts";
import { devices } from "./devices.ts";
import { dpps } from "./dpps.ts";
import { epcis } from "./epcis.ts";
import { compliance } from "./compliance.ts";
import { imports } from "./imports.ts";
import { jobs } from "./jobs.ts";
import { log } from "./log.ts";
import { oauth } from "./oauth.ts";
import { operations } from "./operations.ts";
import { passports } from "./passports.ts";
import { products } from "./products.ts";
import { publicPassports } from "./public-passports.ts";
import { resolver } from "./resolver.ts";
import { schemas } from "./schemas.ts";
import { signingKeys } from "./signing-keys.ts";
import { tenants } from "./tenants.ts";
import { webhooks } from "./webhooks.ts";
import { verifiableCredentials } from "./verifiable-credentials.ts";

/** An update has two verbs: PATCH, and PUT as another name of it. */
const withPut = (route: Route): Route[] =>
  route.method === "PATCH" ? [route, { ...route, method: "PUT", says: "Another name of PATCH" }] : [route];

export const routes: readonly Route[] = [
  ...tenants,
  ...apiKeys,
  ...oauth,
  ...signingKeys,
  ...products,
  ...imports,
  ...schemas,
  ...compliance,
  ...passports,
  ...carriers,
  ...jobs,
  ...devices,
  ...resolver,
  ...publicPassports,
  ...verifiableCredentials,
  ...dpps,
  ...epcis,
  ...log,
  ...webhooks,
  ...auditLogs,
  ...floorConsole,
  ...operations,
].flatMap(withPut);
