// Every number with a meaning, once: the unit is in the name, the reason beside it, the README table made from it.

export const limitTable = {
  BODY_MAX_BYTES: [1_048_576, "A request body, unless a route says otherwise; larger is 413 PAYLOAD_TOO_LARGE"],
  HEADERS_MAX_BYTES: [16_384, "All request headers together; larger is 431 HEADERS_TOO_LARGE"],
  JSON_MAX_DEPTH: [32, "Nesting of a JSON body; deeper is 400 VALIDATION_ERROR"],
  FAULTS_MAX_ITEMS: [100, "Faults that one refusal names"],
  FAULT_TEXT_MAX_LENGTH: [2_000, "Characters of a refusal's sentence in a batch's or an import's answer"],
  NAME_MAX_LENGTH: [200, "Names of tenants, keys and clients"],
  SCOPES_MAX_ITEMS: [64, "Scopes of one credential"],
  COMPANY_PREFIXES_MAX_ITEMS: [100, "GS1 company prefixes of one tenant"],
  PRODUCT_NAME_MAX_LENGTH: [300, "A product's name"],
  DESCRIPTION_MIN_LENGTH: [10, "A product's description; shorter is 400 VALIDATION_ERROR"],
  DESCRIPTION_MAX_LENGTH: [10_000, "A product's description"],
  REASON_MAX_LENGTH: [1_000, "The reason of a transition or a void"],
  BATCH_MAX_ITEMS: [1_000, "Items of POST /products/batch"],
  BATCH_BODY_MAX_BYTES: [16_777_216, "Its body"],
  PRINT_OUTCOMES_MAX_ITEMS: [1_000, "Outcomes of one POST /carriers/print-status, and serials of one print event"],
  IMPORT_MAX_BYTES: [268_435_456, "A CSV file to import"],
  IMPORT_MAX_ROWS: [100_000, "Its rows, the header aside"],
  IMPORT_ERRORS_MAX_ITEMS: [1_000, "Row errors that an import keeps and shows; all are counted"],
  IMPORT_RECORD_MAX_BYTES: [2_097_152, "One record of a CSV file; a longer one ends the import"],
  IMPORT_CELLS_MAX_ITEMS: [1_000, "Cells of one record; more end the import"],
  PAGE_DEFAULT_ITEMS: [50, "Rows of a list when `limit` is absent"],
  PAGE_MAX_ITEMS: [200, "The largest `limit` of a list"],
  CORRELATION_ID_MAX_LENGTH: [128, "X-Correlation-Id; anything else is replaced by a new one"],
  IDEMPOTENCY_KEY_MAX_LENGTH: [255, "Idempotency-Key, in printable ASCII"],
  IDEMPOTENCY_KEEP_MS: [24 * 3_600_000, "How long an answer is kept for replay"],
  ACCESS_TOKEN_LIFE_S: [900, "Life of an OAuth access token"],
  SECRET_MAX_LENGTH: [4_096, "A credential in a header, a bootstrap key of one's own choosing included"],
  BOOTSTRAP_KEY_MIN_LENGTH: [24, "Characters of a bootstrap key of one's own choosing"],
  OFFLINE_GRACE_DEFAULT_S: [900, "How long a job that may have printed waits for its station"],
  ATTEMPTS_DEFAULT_MAX: [3, "Physical tries of a print job, unless the tenant or the job says otherwise"],
  UNIT_SLOW_MS: [250, "A unit of work that takes longer is logged"],
  UNIT_MAX_MS: [10_000, "A unit of work that takes longer is rolled back"],
  GROUP_MAX_UNITS: [512, "Units of work that share one durable commit"],
  GROUP_MAX_MS: [10, "How long a commit waits for more units before it answers those it has"],
  STORE_QUEUE_MAX_UNITS: [20_000, "Units waiting for the store; beyond it requests are shed with 503 OVERLOADED"],
  EVENT_LOOP_DELAY_MAX_MS: [2_000, "Event-loop delay beyond which requests are shed with 503 OVERLOADED"],
  REQUEST_MAX_MS: [30_000, "Time to receive a whole request (408), and to answer it (503)"],
  HEADERS_MAX_MS: [10_000, "Time to receive the headers of a request"],
  DRAIN_MAX_MS: [10_000, "Time given to running requests after SIGTERM"],
  WEBHOOKS_MAX_ITEMS: [1_000, "Webhooks of one tenant"],
  WEBHOOK_URL_MAX_LENGTH: [2_048, "The address of a webhook"],
  WEBHOOK_TRY_MAX_MS: [15_000, "One try of a delivery, from looking its address up to the last byte of the answer"],
  WEBHOOK_RESPONSE_MAX_BYTES: [65_536, "What is read of an answer; the rest is cut off"],
  WEBHOOK_HEAD_MAX_LENGTH: [1_024, "Characters of an answer that a delivery shows"],
  WEBHOOK_SECRET_OVERLAP_MS: [24 * 3_600_000, "How long a rotated secret still signs beside the new one"],
  WEBHOOK_REPLAY_WINDOW_MS: [5 * 60_000, "Age of a timestamp beyond which a receiver refuses"],
  WEBHOOK_FAILING_MAX_MS: [5 * 24 * 3_600_000, "A webhook of which no try succeeds for so long is disabled"],
  WEBHOOK_IN_FLIGHT_MAX: [8, "Tries to one webhook at a time; one while few wait, so that they arrive in order"],
  WEBHOOK_ATTEMPTS_SHOWN_MAX: [50, "Tries that a delivery shows, the last ones"],
  WEBHOOK_KEEP_MS: [30 * 24 * 3_600_000, "How long a delivery that has ended can be seen and sent again"],
  SIGNING_KEY_LIFE_MS: [90 * 24 * 3_600_000, "Age at which a node makes itself a new signing key; old ones still verify"],
} as const satisfies Record<string, readonly [value: number, says: string]>;

type Limits = { [Name in keyof typeof limitTable]: number };

/** `limits.BODY_MAX_BYTES` and friends. */
export const limits = Object.fromEntries(Object.entries(limitTable).map(([name, [value]]) => [name, value])) as Limits;

/** Requests a minute by tier; a bucket holds a tenth of it, so that is the burst. */
export const tiers = {
  sandbox: 120,
  standard: 1_200,
  pro: 12_000,
  device: 6_000,
  anonymous: 1_200,
} as const;
export type Tier = keyof typeof tiers;
export const BURST_SHARE = 0.1;
