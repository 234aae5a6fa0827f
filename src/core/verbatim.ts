/**
 * Parses JSON and keeps numbers that a double would change (12345678901234567890, 1.10, 1e400) as
 * `JSON.rawJSON`. Everything else is like `JSON.parse`: the last one of repeated fields counts, and
 * `__proto__` is a field like any other.
 *
 * Written by hand because `JSON.parse` with a reviver takes some 3 µs for each value, twenty times as
 * long: a second for the largest body that a tenant may publish.
 *
 * @param text is known to be valid JSON and not deeper than the call stack; it is not checked here
 */
export function parseVerbatim(text: string): unknown {
  return new Reader(text).value();
}

/** A parsed JSON text, and what `JSON.parse` changes in it. */
export interface VerbatimJson {
  /** As {@link parseVerbatim} returns it. */
  readonly value: unknown;
  /** Path of the first field that its object has twice. */
  readonly repeated: JsonPath | undefined;
  /** Paths of the numbers of which `JSON.parse` returns another one. */
  readonly rounded: readonly JsonPath[];
}

/** Names of fields and positions in arrays, from the root. */
export type JsonPath = readonly (string | number)[];

/** A part of a JSON text that `JSON.parse` changes, as the reason of an error. */
export interface JsonLoss {
  readonly reason: string;
  readonly path: JsonPath;
}

/**
 * Returns the first repeated field, of which receivers take different ones (RFC 8259 section 4), or else
 * the first number that would be rounded, except where `isKept`.
 */
export function lossOf(
  { repeated, rounded }: Omit<VerbatimJson, 'value'>,
  isKept: (path: JsonPath) => boolean = () => false,
): JsonLoss | undefined {
  if (repeated !== undefined) return { reason: 'Repeated property', path: repeated };
  const path = rounded.find((each) => !isKept(each));
  return path && { reason: 'A number that would be rounded: send it as a string', path };
}

/** Parses JSON that is known to be valid and not deep; numbers stay as they are. */
export function parseKept(text: string): unknown {
  return mayHoldInexactNumber(text) ? parseVerbatim(text) : JSON.parse(text);
}

/** Does the same as {@link parseVerbatim}, and finds what `JSON.parse` changes silently. */
export function readVerbatim(text: string): VerbatimJson {
  const reader = new Reader(text);
  const value = reader.value();
  return { value, repeated: reader.repeated, rounded: reader.rounded };
}

/** Whether {@link parseVerbatim} may return another value than `JSON.parse`; may be true without need. */
export function mayHoldInexactNumber(text: string): boolean {
  return inexactNumber.test(text);
}

/**
 * Matches, after a character that can precede a number: -0, 16 digits, less than a millionth, a
 * fraction that ends in 0, or an exponent.
 */
const inexactNumber =
  /[:,[\s](?:-0(?![.0-9])|-?(?:[0-9.]{16}|0\.000000|[0-9]+\.[0-9]*0(?![0-9])|[0-9.]+[eE]))/;

const code = {
  tab: 0x09,
  lineFeed: 0x0a,
  carriageReturn: 0x0d,
  space: 0x20,
  quote: 0x22,
  plus: 0x2b,
  comma: 0x2c,
  minus: 0x2d,
  point: 0x2e,
  zero: 0x30,
  nine: 0x39,
  bracketOpen: 0x5b,
  backslash: 0x5c,
  bracketClose: 0x5d,
  f: 0x66,
  n: 0x6e,
  t: 0x74,
  braceOpen: 0x7b,
  braceClose: 0x7d,
} as const;

/** Reads one JSON text from its beginning. */
class Reader implements Omit<VerbatimJson, 'value'> {
  repeated: JsonPath | undefined;
  readonly rounded: JsonPath[] = [];
  readonly #text: string;
  #at = 0;
  readonly #path: (string | number)[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  value(): unknown {
    switch (this.#skipSpace()) {
      case code.braceOpen:
        return this.#object();
      case code.bracketOpen:
        return this.#array();
      case code.quote:
        return this.#string();
      case code.t:
        this.#at += 'true'.length;
        return true;
      case code.f:
        this.#at += 'false'.length;
        return false;
      case code.n:
        this.#at += 'null'.length;
        return null;
      default:
        return this.#number();
    }
  }

  #object(): object {
    const fields: Record<string, unknown> = {};
    this.#at += 1;
    while (this.#skipSpace() !== code.braceClose) {
      const name = this.#string();
      this.#skipSpace();
      this.#at += 1;
      this.#path.push(name);
      if (this.repeated === undefined && Object.hasOwn(fields, name)) {
        this.repeated = [...this.#path];
      }
      put(fields, name, this.value());
      this.#path.pop();
      this.#skipComma();
    }
    this.#at += 1;
    return fields;
  }

  #array(): unknown[] {
    const items: unknown[] = [];
    this.#at += 1;
    while (this.#skipSpace() !== code.bracketClose) {
      this.#path.push(items.length);
      items.push(this.value());
      this.#path.pop();
      this.#skipComma();
    }
    this.#at += 1;
    return items;
  }

  #string(): string {
    const start = this.#at;
    let escaped = false;
    let at = start + 1;
    for (let unit; (unit = this.#text.charCodeAt(at)) !== code.quote; at += 1) {
      if (unit !== code.backslash) continue;
      escaped = true;
      at += 1;
    }
    this.#at = at + 1;
    return escaped
      ? (JSON.parse(this.#text.slice(start, at + 1)) as string)
      : this.#text.slice(start + 1, at);
  }

  #number(): number | object {
    const start = this.#at;
    while (isOfNumber(this.#text.charCodeAt(this.#at))) this.#at += 1;
    const source = this.#text.slice(start, this.#at);
    const number = Number(source);
    if (String(number) === source && isWithinSafe(number)) return number;
    if (!isSameNumber(source, number)) this.rounded.push([...this.#path]);
    return rawJSON(source);
  }

  /** Returns the unit after white space. */
  #skipSpace(): number {
    for (;;) {
      const unit = this.#text.charCodeAt(this.#at);
      if (!isSpace(unit)) return unit;
      this.#at += 1;
    }
  }

  #skipComma(): void {
    if (this.#skipSpace() === code.comma) this.#at += 1;
  }
}

/** Returns whether a double holds a number without rounding it, as far as programs rely on that. */
function isSameNumber(source: string, number: number): boolean {
  if (!Number.isFinite(number) || !isWithinSafe(number)) return false;
  const [sent, held] = [digitsOf(source), digitsOf(String(number))];
  return sent.digits === held.digits && (sent.digits === '' || sent.exponent === held.exponent);
}

/** Larger integers, also those that a double holds, are written in other digits or read as others. */
function isWithinSafe(number: number): boolean {
  return !Number.isInteger(number) || Number.isSafeInteger(number);
}

/** Returns the digits of a number without zeros around them, and the power of ten of the first. */
function digitsOf(source: string): { readonly digits: string; readonly exponent: number } {
  const [mantissa = '', power = '0'] = source.toLowerCase().replace(/^-/, '').split('e');
  const [whole = '', fraction = ''] = mantissa.split('.');
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const exponent = digits.length - fraction.length + Number(power);
  return { digits: digits.replace(/0+$/, ''), exponent };
}

function put(fields: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') {
    fields[name] = value;
    return;
  }
  const own = { value, writable: true, enumerable: true, configurable: true };
  Object.defineProperty(fields, name, own);
}

function isSpace(unit: number): boolean {
  return (
    unit === code.space ||
    unit === code.lineFeed ||
    unit === code.carriageReturn ||
    unit === code.tab
  );
}

function isOfNumber(unit: number): boolean {
  const lower = unit | 0x20;
  return (
    (unit >= code.zero && unit <= code.nine) ||
    unit === code.minus ||
    unit === code.point ||
    unit === code.plus ||
    lower === 0x65
  );
}

/**
 * Holds a number as its text where a double cannot represent it; `JSON.stringify` writes the text
 * (ECMA-262, JSON.rawJSON). TypeScript has no type definitions for it yet.
 */
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): object;
  isRawJSON(value: unknown): boolean;
};

export { isRawJSON };
