import type { Offset } from './types.ts';

const digits = 12;

/**
 * An offset as clients see it: the base64 of its 12 decimal digits, `MDAwMDAwMDAwMDQy` for 42. It is
 * opaque to them and of one length.
 */
export function formatOffset(offset: Offset): string {
  return btoa(String(offset).padStart(digits, '0'));
}

/** The offset of such a text; `undefined` for anything that {@link formatOffset} does not make. */
export function parseOffset(text: string): Offset | undefined {
  if (!/^[A-Za-z0-9]{16}$/.test(text)) return undefined;
  const decimal = atob(text);
  return /^[0-9]{12}$/.test(decimal) ? Number(decimal) : undefined;
}
