/** Bytes whose memory nothing else shares: for what is kept longer than a request or an attempt. */
export type OwnBytes = Uint8Array<ArrayBuffer> & { readonly [own]: true };

declare const own: unique symbol;

/**
 * Returns a copy with memory of its own. A small `Buffer` is a view of a block of `Buffer.poolSize` bytes
 * (64 KiB), and a chunk of a socket one of what was read at once: the whole block stays in memory as long as
 * any view of it.
 */
export function ownBytes(bytes: Uint8Array): OwnBytes {
  return new Uint8Array(bytes) as OwnBytes;
}
