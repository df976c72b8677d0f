// What to do about a database that can't be worked with, by the code of the fault: PostgreSQL's own words are in whatever language it speaks.
import { codeOf } from "#shared/fault.ts";
import { limits } from "#shared/limits.ts";

const SEE = "see IMPRIMATUR_DATABASE_URL";
const CA = "name its CA in IMPRIMATUR_DATABASE_URL (sslrootcert=FILE), or in NODE_EXTRA_CA_CERTS";
const POOLER = 'behind a pooler see "PostgreSQL of others" in the README';
/** The server's own code for a password that won't do. */
export const NO_PASSWORD = "28P01";
const remedies: Record<string, string> = {
  STORE_UNAVAILABLE: SEE,
  "08P01": POOLER, // a startup parameter that it doesn't know
  "25006": "name the primary in IMPRIMATUR_DATABASE_URL, or set default_transaction_read_only = off",
  "26000": POOLER, // a prepared statement that another connection has
  "28000": "see IMPRIMATUR_DATABASE_URL; a server that takes only TLS wants sslmode=verify-full in it",
  [NO_PASSWORD]: "check the password in IMPRIMATUR_DATABASE_URL (postgres://USER:PASSWORD@HOST/DATABASE, percent-encoded)",
  "42501": "the role of IMPRIMATUR_DATABASE_URL has to own our tables, or to be granted what it lacks",
  "42P01": "check IMPRIMATUR_DATABASE_URL, or start the cloud once: it makes its tables",
  "42P05": POOLER,
  "53100": "make room on the disk of the database's server",
  "53300": `a node takes up to ${limits.POSTGRES_CONNECTIONS} connections: raise max_connections, or the limit of the role or the database`,
  CERT_HAS_EXPIRED: "renew the server's certificate",
  DEPTH_ZERO_SELF_SIGNED_CERT: CA,
  ERR_TLS_CERT_ALTNAME_INVALID: "name the server in IMPRIMATUR_DATABASE_URL as its certificate does",
  SELF_SIGNED_CERT_IN_CHAIN: CA,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: CA,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: CA,
};

/** Of the innermost fault that has one. */
export function remedyOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  return remedyOf(error.cause) ?? remedies[codeOf(error)];
}
