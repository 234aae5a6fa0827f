import type { Slices } from './slices.ts';

/** Characters or bytes that are read without a pause: some 0.5 ms. */
const sliceLength = 128 * 1024;

/** What a JSON text costs to parse and to work with. */
export interface JsonSize {
  /** Arrays, objects and members of objects: what parsing, and all that is done with a value, takes time for. */
  readonly parts: number;
  /** Arrays and objects that are inside one another. */
  readonly depth: number;
}

/** Measures a JSON text in UTF-8 without parsing it. What is no JSON has any size. */
export function* sizeOf(json: Uint8Array): Slices<JsonSize> {
  const measure = new Measure(json);
  for (let at = 0; at < json.length;) {
    at = measure.read(at, at + sliceLength);
    if (at < json.length) yield;
  }
  return measure;
}

/** What one has seen of a text so far: the loop in the generator itself takes two to four times as long. */
class Measure implements JsonSize {
  parts = 0;
  depth = 0;
  readonly #json: Uint8Array;
  /** Of the place where it has come to. */
  #openParts = 0;
  #isInString = false;

  constructor(json: Uint8Array) {
    this.#json = json;
  }

  /** Reads from one place to about another, and returns where it has come to. */
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

/** A member of an object: its name, and both name and value as they are written. */
export interface MemberText {
  readonly name: string;
  readonly text: string;
}

/**
 * Cuts the text of an object into its members, without parsing their values.
 *
 * @param object is written without spaces, as `JSON.stringify` does
 */
export function* membersOf(object: string): Slices<readonly MemberText[]> {
  const cut = new Cut(object);
  for (let at = 1; at < object.length;) {
    at = cut.read(at, at + sliceLength);
    if (at < object.length) yield;
  }
  return cut.members;
}

/** An object that is being cut; a class for the reason that `Measure` is one. */
class Cut {
  readonly members: MemberText[] = [];
  readonly #object: string;
  readonly #units: Uint16Array;
  #start = 1;
  #nameEnd = 0;
  /** Of the place where it has come to, in the value of a member. */
  #depth = 0;
  #isInString = false;

  constructor(object: string) {
    this.#object = object;
    this.#units = unitsOf(object);
  }

  /** Reads from one place to about another, and returns where it has come to. */
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

  /** A member ends before this place, unless the object has none. */
  #end(at: number): void {
    const start = this.#start;
    this.#start = at + 1;
    if (at === start) return;
    const name = JSON.parse(this.#object.slice(start, this.#nameEnd)) as string;
    this.members.push({ name, text: this.#object.slice(start, at) });
  }
}

/** The code units of a text: reading them off the text itself takes twice as long. */
function unitsOf(text: string): Uint16Array {
  const units = new Uint16Array(text.length);
  Buffer.from(units.buffer).write(text, 'utf16le');
  return units;
}
