// Schema discovery: what a category asks for, and a CSV file to fill in.
import { closed, listOf, PageQuery } from "#shared/wire/common.ts";
import { CategoryEntry, CategoryParams, CategorySchema, SchemaQuery, TemplateQuery } from "#shared/wire/schemas.ts";
import * as domain from "../domain/categories.ts";
import { type Route, routesUnder } from "../route.ts";

const { read } = routesUnder("schemas");

export const schemas: Route[] = [
  read({
    path: "/schemas/categories",
    scope: ["products:read"],
    says: "Every category with its versions, and whether it is in effect now",
    query: closed(PageQuery),
    replies: { 200: listOf(CategoryEntry) },
    run: async ({ tx, query }) => ({ status: 200, body: domain.list(tx.now, query) }),
  }),
  read({
    path: "/schemas/categories/{category}",
    scope: ["products:read"],
    says: "The schema in effect at an instant in a jurisdiction: what create, batch, PATCH and import judge by",
    params: CategoryParams,
    query: SchemaQuery,
    replies: { 200: CategorySchema },
    refusals: ["SCHEMA_NOT_FOUND"],
    run: async ({ tx, params, query }) => {
      const at = query.date === undefined ? tx.now : Date.parse(query.date);
      return { status: 200, body: domain.shown(domain.find(params.category, at, query.jurisdiction), query.includeFields ?? true) };
    },
  }),
  read({
    path: "/schemas/categories/{category}/import-template",
    scope: ["products:read"],
    says: "A CSV file with a column for every field, for POST /imports",
    params: CategoryParams,
    query: TemplateQuery,
    replies: { 200: "text/csv" },
    sends: ["Content-Disposition"],
    refusals: ["SCHEMA_NOT_FOUND"],
    run: async ({ tx, params, query }) => {
      const schema = domain.find(params.category, tx.now, query.jurisdiction);
      return {
        status: 200,
        body: `${domain.columnsOf(schema).join(",")}\r\n`, // names of fields: nothing in them needs quotes
        headers: {
          "content-type": "text/csv; charset=utf-8",
          "content-disposition": `attachment; filename="import-template-${schema.category}-v${schema.version}.csv"`,
        },
      };
    },
  }),
];
