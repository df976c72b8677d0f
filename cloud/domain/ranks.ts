// The order in which the end of a commit says what many units left for it, and so in which all nodes lock the rows that everybody wants.
export const ranks = { devices: 0, jobHours: 1, log: 2, audit: 3 } as const;
