import { printable } from '../core/setting.ts';

/** Returns a text as one word of a command that is printed for a user to copy: quoted where needed. */
export function shellWord(text: string): string {
  const shown = printable(text);
  return /^[\w.:/=+-]+$/.test(shown) ? shown : `'${shown.replaceAll("'", `'\\''`)}'`;
}
