import type { StreamRef } from './types.ts';

/** Returns the key of a stream in a map. */
export function streamKeyOf({ tenant, stream }: StreamRef): string {
  return `${tenant} ${stream}`;
}
