/** One way to read a part of a text: it stands for the UTF-16 code unit `code` and ends at `end`. */
export interface Reading {
  readonly code: number;
  readonly end: number;
}

/** By the position where they begin; that a character stands for itself is not among them. */
export type Readings = ReadonlyMap<number, readonly Reading[]>;

/** JSON within JSON is read, a third level is not. */
const NESTING_MAX = 2;

/**
 * Returns how the escapes of a text can be read: those of JSON and of string literals (RFC 8259
 * section 7, `\x22`), character references of HTML (HTML Standard, Character reference state; also
 * without a semicolon) and percent-encoding (RFC 3986 section 2.1, and `+` as a space), each also within
 * another one. An escape is read wherever one can begin, so that a text counts that was quoted from
 * within an escape.
 */
export function readEscapes(text: string): Readings {
  const positions = Array.from(text.matchAll(/[\\&%+]/g), ({ index }) => index);
  let readings: Readings = new Map();
  for (let nesting = 0; nesting < NESTING_MAX && positions.length > 0; nesting++) {
    const found = new Map<number, Reading[]>();
    for (const [at, each] of readings) found.set(at, [...each]);
    const reader = createReader(text, readings);
    for (const at of positions) readAt(reader, at, (reading) => add(found, at, reading));
    readings = found;
  }
  return readings;
}

type Emit = (reading: Reading) => void;

function readAt(reader: Reader, position: number, emit: Emit): void {
  for (const { code, end } of reader.at(position)) {
    if (code === backslash) readString(reader, end, emit);
    else if (code === ampersand) readReference(reader, end, emit);
    else if (code === percent) readPercent(reader, end, emit);
    else if (code === plus) emit({ code: space, end });
  }
}

function add(readings: Map<number, Reading[]>, at: number, { code, end }: Reading): void {
  if (code > 0xffff) {
    // Two code units; the first one ends within the escape, where nothing else continues it.
    const character = String.fromCodePoint(code);
    add(readings, at, { code: character.charCodeAt(0), end: at + 1 });
    add(readings, at + 1, { code: character.charCodeAt(1), end });
    return;
  }
  const known = readings.get(at);
  if (known === undefined) readings.set(at, [{ code, end }]);
  else if (!known.some((each) => each.code === code && each.end === end)) known.push({ code, end });
}

/** Reads a text of which some escapes are known. */
interface Reader {
  /** Returns everything that the text can stand for at a position. */
  at(position: number): readonly Reading[];
  /** Returns the longest reading at a position that is a digit, with the digit as its code. */
  digit(position: number, base: 10 | 16): Reading | undefined;
}

function createReader(text: string, readings: Readings): Reader {
  const at = (position: number): readonly Reading[] => {
    if (position >= text.length) return [];
    const itself = { code: text.charCodeAt(position), end: position + 1 };
    const others = readings.get(position);
    return others === undefined ? [itself] : [itself, ...others];
  };
  return {
    at,
    digit: (position, base) => {
      let longest: Reading | undefined;
      for (const { code, end } of at(position)) {
        const digit = digitOf(code);
        if (digit < base && end > (longest?.end ?? 0)) longest = { code: digit, end };
      }
      return longest;
    },
  };
}

/** Reads what follows a backslash. */
function readString(reader: Reader, start: number, emit: Emit): void {
  for (const { code, end } of reader.at(start)) {
    const digits = hexEscapes.get(code);
    if (digits !== undefined) emitNumber(readNumber(reader, end, 16, digits), digits, emit);
    // Line breaks can be within base64; no secret has another control character.
    else if (code === lowerN) emit({ code: 0x0a, end });
    else if (code === lowerR) emit({ code: 0x0d, end });
    else if (!isAlphanumeric(code)) emit({ code, end });
  }
}

/** Reads what follows an ampersand. */
function readReference(reader: Reader, start: number, emit: Emit): void {
  const emitBoth: Emit = ({ code, end }) => {
    emit({ code, end });
    for (const next of reader.at(end)) if (next.code === semicolon) emit({ code, end: next.end });
  };
  for (const { code, end } of reader.at(start)) {
    if (code !== hash) continue;
    emitNumber(readNumber(reader, end, 10, digitsMax), 1, emitBoth);
    for (const x of reader.at(end)) {
      if ((x.code | 0x20) !== lowerX) continue;
      emitNumber(readNumber(reader, x.end, 16, digitsMax), 1, emitBoth);
    }
  }
  let name = '';
  for (let at = start; name.length < nameLengthMax;) {
    const sign = reader.at(at).find(({ code }) => isAlphanumeric(code));
    if (sign === undefined) return;
    name += String.fromCharCode(sign.code);
    at = sign.end;
    const code = names.get(name);
    if (code !== undefined) emitBoth({ code, end: at });
  }
}

/** Reads what follows a percent sign. */
function readPercent(reader: Reader, start: number, emit: Emit): void {
  const byte = byteAt(reader, start);
  if (byte !== undefined) {
    emit(byte);
    const character = readUtf8(reader, byte);
    if (character !== undefined) emit(character);
  }
  // The `escape` of JavaScript.
  for (const { code, end } of reader.at(start)) {
    if (code === lowerU) emitNumber(readNumber(reader, end, 16, 4), 4, emit);
  }
}

/** Returns the character of the UTF-8 sequence (RFC 3629 section 3) that a byte begins. */
function readUtf8(reader: Reader, first: Reading): Reading | undefined {
  const following = first.code >= 0xf0 ? 3 : first.code >= 0xe0 ? 2 : first.code >= 0xc2 ? 1 : 0;
  if (following === 0) return undefined;
  let code = first.code & (0x3f >> following);
  let { end } = first;
  for (let n = 0; n < following; n++) {
    const sign = reader.at(end).find((each) => each.code === percent);
    const byte = sign === undefined ? undefined : byteAt(reader, sign.end);
    if (byte === undefined || (byte.code & 0xc0) !== 0x80) return undefined;
    code = code * 64 + (byte.code & 0x3f);
    ({ end } = byte);
  }
  return code <= codePointMax ? { code, end } : undefined;
}

function byteAt(reader: Reader, start: number): Reading | undefined {
  const number = readNumber(reader, start, 16, 2);
  return number.digits === 2 ? number : undefined;
}

interface ReadNumber extends Reading {
  readonly digits: number;
}

/** Returns the number that the digits at a position make, and how many they are. */
function readNumber(
  reader: Reader,
  start: number,
  base: 10 | 16,
  digitsAtMost: number,
): ReadNumber {
  let code = 0;
  let end = start;
  for (let digits = 0; digits < digitsAtMost; digits++) {
    const digit = reader.digit(end, base);
    if (digit === undefined) return { code, end, digits };
    code = code * base + digit.code;
    ({ end } = digit);
  }
  return { code, end, digits: digitsAtMost };
}

function emitNumber({ code, end, digits }: ReadNumber, digitsMin: number, emit: Emit): void {
  if (digits >= digitsMin && code <= codePointMax) emit({ code, end });
}

/** Returns the value of a hexadecimal digit; 16 for other characters. */
function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : 16;
}

function isAlphanumeric(code: number): boolean {
  const lower = code | 0x20;
  return (code >= 0x30 && code <= 0x39) || (lower >= 0x61 && lower <= 0x7a);
}

const codePointMax = 0x10_ffff;
/** Of a numeric reference: zeros before it do not change it. */
const digitsMax = 32;

const backslash = 0x5c;
const ampersand = 0x26;
const percent = 0x25;
const plus = 0x2b;
const space = 0x20;
const hash = 0x23;
const semicolon = 0x3b;
const lowerN = 0x6e;
const lowerR = 0x72;
const lowerU = 0x75;
const lowerX = 0x78;

/** The letters `u`, `x` and `U`, and how many hexadecimal digits follow them. */
const hexEscapes: ReadonlyMap<number, number> = new Map([
  [lowerU, 4],
  [lowerX, 2],
  [0x55, 8],
]);

/** The characters that encoders write as a named reference. */
const names: ReadonlyMap<string, number> = new Map([
  ['amp', ampersand],
  ['AMP', ampersand],
  ['lt', 0x3c],
  ['LT', 0x3c],
  ['gt', 0x3e],
  ['GT', 0x3e],
  ['quot', 0x22],
  ['QUOT', 0x22],
  ['apos', 0x27],
]);
const nameLengthMax = 4;
