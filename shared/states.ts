// What may follow what, as tables: the domain, the SQL, OpenAPI and the README read these and nothing else.

/** A product's way to its passport. The way back from ready_for_dpp is open only while there is no passport. */
export const productStages = {
  draft: { status: "Draft", next: ["validated"] },
  validated: { status: "Validated", next: ["ready_for_dpp"] },
  ready_for_dpp: { status: "ReadyForDpp", next: ["draft"] },
} as const satisfies Record<string, { status: string; next: readonly string[] }>;

export type ProductStage = keyof typeof productStages;
export const VOIDED = "Voided";
export const productStatuses = [...Object.values(productStages).map(({ status }) => status), VOIDED] as const;

/** A passport's commands and the states that they are legal in; `draft` where they also need an open draft version. */
export const passportCommands = {
  edit: { from: ["draft", "published"], draft: true },
  delete: { from: ["draft"], draft: true },
  publish: { from: ["draft", "published"], draft: true },
  revise: { from: ["published"], draft: false },
  suspend: { from: ["published"], draft: false },
  archive: { from: ["published", "suspended"], draft: false },
} as const satisfies Record<string, { from: readonly PassportState[]; draft: boolean }>;

export const passportStates = ["generating", "draft", "published", "suspended", "archived"] as const;
export type PassportState = (typeof passportStates)[number];
export type PassportCommand = keyof typeof passportCommands;
