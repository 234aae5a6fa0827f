import { runSync, type Slices } from './slices.ts';

/** Characters or bytes of one slice: some 0.5 ms. */
const sliceLength = 128 * 1024;

/** The size of a JSON text, which determines the time to parse and process it. */
export interface JsonSize {
  /** Number of arrays, objects and fields. */
  readonly parts: number;
  /** Nesting depth of arrays and objects. */
  readonly depth: number;
}

/** How deep JSON may nest: deeper than any document needs, and far below the limit of recursion. */
export const depthMax = 100;

/** Returns whether a JSON text in UTF-8 nests deeper than {@link depthMax}: a reader of the text may recurse. */
export function isTooDeep(json: Uint8Array): boolean {
  return runSync(sizeOf(json)).depth > depthMax;
}

/** Measures a JSON text in UTF-8 without parsing it. The result for invalid JSON is undefined. */
export function* sizeOf(json: Uint8Array): Slices<JsonSize> {
  const measure = new Measure(json);
  for (let at = 0; at < json.length;) {
    at = measure.read(at, at + sliceLength);
    if (at < json.length) yield;
  }
  return measure;
}

/** State of a measurement. A class, because the loop inside a generator is two to four times slower. */
class Measure implements JsonSize {
  parts = 0;
  depth = 0;
  readonly #json: Uint8Array;
  /** Arrays and objects that are open at the current position. */
  #openParts = 0;
  #isInString = false;

  constructor(json: Uint8Array) {
    this.#json = json;
  }

  /** Reads from one position to about another; returns the position reached. */
  read(from: number, to: number): number {
    const json = this.#json;
    const end = Math.min(to, json.length);
    let { parts, depth } = this;
    let openParts = this.#openParts;
    let isInString = this.#isInString;
    let at = from;
    for (; at < end; at += 1) {
      const byte = json[at];
      if (isInString) {
        if (byte === backslash) at += 1;
        else if (byte === quote) isInString = false;
      } else if (byte === quote) isInString = true;
      else if (byte === brace || byte === bracket) {
        parts += 1;
        openParts += 1;
        if (openParts > depth) depth = openParts;
      } else if (byte === braceClose || byte === bracketClose) openParts -= 1;
      else if (byte === colon) parts += 1;
    }
    this.parts = parts;
    this.depth = depth;
    this.#openParts = openParts;
    this.#isInString = isInString;
    return at;
  }
}

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const bracket = 0x5b;
const backslash = 0x5c;
const bracketClose = 0x5d;
const brace = 0x7b;
const braceClose = 0x7d;

/** A field of an object: its parsed name, and the text of name and value. */
export interface FieldText {
  readonly name: string;
  readonly text: string;
}

/**
 * Splits the text of an object into its fields, without parsing their values.
 *
 * @param object has no white space between tokens, like the output of `JSON.stringify`
 */
export function* fieldsOf(object: string): Slices<readonly FieldText[]> {
  const splitter = new FieldSplitter(object);
  for (let at = 1; at < object.length;) {
    at = splitter.read(at, at + sliceLength);
    if (at < object.length) yield;
  }
  return splitter.fields;
}

/** State of a split; a class for the same reason as `Measure`. */
class FieldSplitter {
  readonly fields: FieldText[] = [];
  readonly #object: string;
  readonly #units: Uint16Array;
  #start = 1;
  #nameEnd = 0;
  /** Nesting depth of the current position within the value of a field. */
  #depth = 0;
  #isInString = false;

  constructor(object: string) {
    this.#object = object;
    this.#units = unitsOf(object);
  }

  /** Reads from one position to about another; returns the position reached. */
  read(from: number, to: number): number {
    const units = this.#units;
    const end = Math.min(to, units.length);
    let depth = this.#depth;
    let isInString = this.#isInString;
    let at = from;
    for (; at < end; at += 1) {
      const unit = units[at];
      if (isInString) {
        if (unit === backslash) at += 1;
        else if (unit === quote) isInString = false;
      } else if (unit === quote) isInString = true;
      else if (unit === brace || unit === bracket) depth += 1;
      else if (depth > 0) {
        if (unit === braceClose || unit === bracketClose) depth -= 1;
      } else if (unit === colon) this.#nameEnd = at;
      else if (unit === comma || unit === braceClose) this.#end(at);
    }
    this.#depth = depth;
    this.#isInString = isInString;
    return at;
  }

  /** Adds the field that ends before this position, unless the object is empty. */
  #end(at: number): void {
    const start = this.#start;
    this.#start = at + 1;
    if (at === start) return;
    const name = JSON.parse(this.#object.slice(start, this.#nameEnd)) as string;
    this.fields.push({ name, text: this.#object.slice(start, at) });
  }
}

/** Returns the code units of a text: reading them from the string itself takes twice as long. */
function unitsOf(text: string): Uint16Array {
  const units = new Uint16Array(text.length);
  Buffer.from(units.buffer).write(text, 'utf16le');
  return units;
}
