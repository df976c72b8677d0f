// What many units leave to be written at the end of their commit (`tx.atEnd`), in the order in which it is: on all nodes the same, as they lock the same rows.
export const ranks = { devices: 0, jobHours: 1, log: 2, audit: 3 } as const;
