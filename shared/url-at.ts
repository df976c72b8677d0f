// Where a program of ours listens, as a URL: an IPv6 address stands in brackets there.

export const urlAt = (host: string, port: number): string => `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
/** Nobody on another machine reaches it there. */
export const isLoopback = (host: string): boolean => /^(127\.|localhost$|::1$)/.test(host);
