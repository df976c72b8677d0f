// Where the API stands below an origin: its version is part of every address but those at the root.
export const API = "/api/v2";
/** Of any other address. A station asks for none such, so something alters it on its way. */
export const NO_SUCH_ADDRESS = `there is no such address: those of the API begin with ${API}, and /docs shows them`;
