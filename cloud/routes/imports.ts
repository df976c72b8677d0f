// Imports over HTTP: hand in a CSV file, then watch it being worked off.
import { API } from "#shared/api.ts";
import { closed, IdParams, listOf, PageQuery } from "#shared/wire/common.ts";
import { Import, ImportQuery, ImportTaken } from "#shared/wire/imports.ts";
import * as domain from "../domain/imports.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, write } = routesUnder("products");

export const imports: Route[] = [
  write({
    method: "POST",
    path: "/imports",
    scope: ["products:create"],
    says: "Import products from a CSV file, up to 100,000 rows: taken in now, worked off afterwards",
    query: ImportQuery,
    takesFile: "text/csv",
    example:
      "name,description,gtin,serialNumber,weeeCategory\r\nKettle 1.7,An electric kettle of 1.7 litres,4006381333931,K17-0001,small_equipment\r\n",
    replies: { 202: ImportTaken },
    sends: ["Location"],
    refusals: ["SCHEMA_NOT_EFFECTIVE", "PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"],
    audit: "product.import_begun",
    run: async ({ tx, by, query, upload }) => {
      if (!upload) throw new Error("the route takes a file and got none");
      const data = await domain.begin(tx, by, upload, query.category);
      return {
        status: 202,
        body: { data },
        headers: { location: `${API}/imports/${data.id}` },
        about: { subject: data.id, details: { category: data.category, bytes: data.bytes } },
      };
    },
  }),
  read({
    path: "/imports",
    scope: ["products:read"],
    says: "The tenant's imports, newest first, with how far they are; their row errors are at each by itself",
    query: closed(PageQuery),
    replies: { 200: listOf(Import) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await domain.list(tx, caller, query) }),
  }),
  read({
    path: "/imports/{id}",
    scope: ["products:read"],
    says: "How far an import is, and what was wrong with which line and column",
    params: IdParams,
    replies: { 200: Import },
    run: async ({ tx, caller, params }) => ({ status: 200, body: await domain.get(tx, caller, params.id) }),
  }),
];
