// An object in JSON of which nothing else is known yet: neither null nor a list.

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
