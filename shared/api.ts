// Where the API stands below an origin: its version is part of every address but those at the root.
export const API = "/api/v2";
