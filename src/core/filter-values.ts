/** A value that `JSON.parse` returns. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [name: string]: Json };

/** Filters read strings up to here… */
export const charactersRead = 4096;
/** …and arrays up to here. What follows is as if it were not there. */
export const elementsRead = 1000;
/** Levels of arrays and objects of a value in a filter. */
export const valueDepthMax = 8;

/** The work that may still be done without a pause; one unit takes some 10 ns. */
export interface Work {
  left: number;
}

/** Returns the part of a string that filters read. */
export function readText(text: string): string {
  return text.length <= charactersRead ? text : text.slice(0, charactersRead);
}

export function isArray(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** Returns whether a value is a JSON object. */
export function isObject(value: unknown): value is { readonly [name: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns whether `test` holds for an element of an array; false for any other value. */
export function someElement(
  value: Json | undefined,
  work: Work,
  test: (element: Json, work: Work) => boolean,
): boolean {
  if (!isArray(value)) return false;
  const end = Math.min(value.length, elementsRead);
  for (let index = 0; index < end; index += 1) {
    const element = value[index];
    work.left -= 1;
    if (element !== undefined && test(element, work)) return true;
  }
  return false;
}

/**
 * Values to compare with. Arrays and objects are compared by a text of their own, so that a thousand
 * elements are compared with a thousand values in the time that it takes to read them.
 */
export class ValueSet {
  readonly #scalars = new Set<Json>();
  readonly #texts = new Set<string>();
  #longest = 0;

  /** The values nest at most {@link valueDepthMax} levels. */
  constructor(values: readonly Json[]) {
    for (const value of values) this.#add(value);
  }

  #add(value: Json): void {
    if (typeof value !== 'object' || value === null) {
      this.#scalars.add(value);
      return;
    }
    const text = comparableText(value, { room: Infinity, depth: valueDepthMax, work: { left: 0 } });
    if (text === undefined) throw new Error('A value of a filter has a bounded depth.');
    this.#texts.add(text);
    this.#longest = Math.max(this.#longest, text.length);
  }

  /** Returns whether a value of an event is one of them; `undefined` is not. */
  has(value: Json | undefined, work: Work): boolean {
    if (typeof value === 'string') return this.#hasText(value, work);
    if (typeof value !== 'object' || value === null) {
      return value !== undefined && this.#scalars.has(value);
    }
    if (this.#texts.size === 0) return false;
    const text = comparableText(value, { room: this.#longest, depth: valueDepthMax, work });
    return text !== undefined && this.#texts.has(text);
  }

  #hasText(text: string, work: Work): boolean {
    // A part of a text has no hash yet: it takes a microsecond.
    if (text.length > charactersRead) work.left -= workOfLongText;
    return this.#scalars.has(readText(text));
  }
}

const workOfLongText = charactersRead / 32;

/** The limits of a text. */
interface Bounds {
  /** Maximum characters. */
  readonly room: number;
  /** Levels of arrays and objects. */
  readonly depth: number;
  readonly work: Work;
}

/**
 * Returns a text that is equal for equal values; `undefined` when it would exceed the bounds. The
 * order of the fields of an object does not count.
 */
function comparableText(value: Json, bounds: Bounds): string | undefined {
  const { room, depth, work } = bounds;
  work.left -= 2;
  if (typeof value === 'string') {
    work.left -= value.length / 64;
    return within(room, JSON.stringify(readText(value)));
  }
  // Without the sign of -0, which is equal to 0.
  if (typeof value === 'number') return within(room, String(value + 0));
  if (typeof value !== 'object' || value === null) return within(room, String(value));
  if (depth === 0) return undefined;
  return isArray(value) ? arrayText(value, bounds) : objectText(value, bounds);
}

function arrayText(value: readonly Json[], { room, depth, work }: Bounds): string | undefined {
  const length = Math.min(value.length, elementsRead);
  if (2 * length > room) return undefined;
  let text = '[';
  for (let index = 0; index < length; index += 1) {
    const element = value[index] ?? null;
    const part = comparableText(element, { room: room - text.length, depth: depth - 1, work });
    if (part === undefined) return undefined;
    text += `${part},`;
  }
  return within(room, `${text}]`);
}

function objectText(
  value: { readonly [name: string]: Json },
  { room, depth, work }: Bounds,
): string | undefined {
  const names = Object.keys(value);
  // Listing the names of a large object takes some 100 ns for each.
  work.left -= 8 * names.length;
  // Each field takes five characters at least.
  if (5 * names.length > room) return undefined;
  let text = '{';
  for (const name of names.toSorted()) {
    text += `${JSON.stringify(name)}:`;
    const field = value[name] ?? null;
    const part = comparableText(field, { room: room - text.length, depth: depth - 1, work });
    if (part === undefined) return undefined;
    text += `${part},`;
  }
  return within(room, `${text}}`);
}

function within(room: number, text: string): string | undefined {
  return text.length <= room ? text : undefined;
}
