// Hosts in URLs, where an IPv6 address stands in brackets: where a program of ours listens, and whom one of us calls.

export const urlAt = (host: string, port: number): string => `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
/** Without those brackets, as sockets take it. */
export const bareHost = (hostname: string): string => hostname.replace(/^\[(.*)\]$/, "$1");
/** Nobody on another machine reaches it there. */
export const isLoopback = (host: string): boolean => /^(127\.|localhost$|::1$)/.test(host);
