// Where a program of ours listens, as a URL: an IPv6 address stands in brackets there.

export const urlAt = (host: string, port: number): string => `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
