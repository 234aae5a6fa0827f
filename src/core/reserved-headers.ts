/** Returns whether a header is set by deliveries or belongs to the connection. */
export function isReservedHeader(headerKey: string): boolean {
  const name = headerKey.toLowerCase();
  return reserved.has(name) || name.startsWith('proxy-');
}

const reserved = new Set([
  'content-type',
  'content-length',
  'user-agent',
  'webhook-id',
  'webhook-timestamp',
  'webhook-signature',
  'webhook-key-id',
  'traceparent',
  'tracestate',
  'host',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
]);
