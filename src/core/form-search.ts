import type { Reading, Readings } from './escapes.ts';

/** A text as a graph: its nodes are the positions, its edges what begins at one and ends at another. */
export interface SearchText {
  /** For each position the code of its character, or {@link skipped}. */
  readonly codes: Int32Array;
  /** For each position what else can be read there; `undefined` for nothing. */
  readonly others: readonly (readonly Reading[] | undefined)[];
  /** The text was cut off: a beginning of a form at its end is found, too. */
  readonly cut: boolean;
}

/** The code of what may stand between two characters of a form, such as a line break in base64. */
export const skipped = -1;

/** Prepares a text. `fold` maps code units that mean the same to one of them, or to {@link skipped}. */
export function searchTextOf(
  text: string,
  readings: Readings,
  fold: (code: number) => number,
  cut: boolean,
): SearchText {
  const codes = new Int32Array(text.length);
  for (let at = 0; at < text.length; at++) codes[at] = fold(text.charCodeAt(at));
  const others = Array.from<Reading[] | undefined>({ length: text.length });
  for (const [at, each] of readings) {
    others[at] = each.map(({ code, end }) => ({ code: fold(code), end }));
  }
  for (const at of cut ? cutEscapes(text) : []) {
    others[at] = [...(others[at] ?? []), { code: skipped, end: text.length }];
  }
  return { codes, others, cut };
}

/** Longer than an escape whose every character is escaped again. */
const escapeLengthMax = 96;

/** Returns where escapes begin that the end of the text may have cut in two. */
function cutEscapes(text: string): number[] {
  const from = Math.max(0, text.length - escapeLengthMax);
  const tail = /[\\&%][\\&%#;0-9A-Za-z]*$/.exec(text.slice(from));
  if (tail === null) return [];
  return Array.from(tail[0].matchAll(/[\\&%]/g), ({ index }) => from + tail.index + index);
}

/**
 * Calls `mark` for each part of the text that belongs to an occurrence of the form, in any mixture of
 * readings. The search is a bit-parallel simulation of the automaton of the form (Baeza-Yates and
 * Gonnet, "A New Approach to Text Searching", Communications of the ACM 35/10): for each edge one bit
 * operation on each 32 characters of the form, forward and, only when the form was found, backward.
 * No text makes it slower than that. Reasons: docs/adr/0035.
 */
export function findForm(
  text: SearchText,
  form: string,
  mark: (start: number, end: number) => void,
): void {
  const length = text.codes.length;
  if (length === 0 || (form.length > length && !text.cut)) return;
  // What is longer than the text can only begin in it.
  const automaton = automatonOf(form.slice(0, length + 1));
  const states = statesOf(text, automaton);
  if (states !== undefined) markUsed(text, automaton, states, mark);
}

/** State n: the first n characters of the form were read. One bit for each, from 0 to `length`. */
interface Automaton {
  readonly length: number;
  /** 32-bit words of a set of states. */
  readonly words: number;
  /** By code the states that it leads on from. */
  readonly masks: ReadonlyMap<number, Int32Array>;
  /** The states within the form, in which characters may be skipped. */
  readonly inner: Int32Array;
  /** The codes that it begins with. */
  readonly first: readonly number[];
}

function automatonOf(form: string): Automaton {
  const { length } = form;
  const words = (length >> 5) + 1;
  const masks = new Map<number, Int32Array>();
  const allow = (code: number, state: number): void => {
    const mask = masks.get(code) ?? new Int32Array(words);
    setBit(mask, 0, state);
    masks.set(code, mask);
  };
  const lossy = isMostlyKnown(form) ? replacements : [];
  const inner = new Int32Array(words);
  for (let state = 0; state < length; state++) {
    const code = form.charCodeAt(state);
    allow(code, state);
    if (code >= 0x80) for (const each of lossy) allow(each, state);
    if (state > 0) setBit(inner, 0, state);
  }
  const first = [...masks].filter(([, mask]) => hasBit(mask, 0, 0)).map(([code]) => code);
  return { length, words, masks, inner, first };
}

/** What programs write instead of a character outside of ASCII that they cannot decode or encode. */
const replacements = [0xfffd, 0x3f];

/** Returns whether a form can be recognized without its other characters. */
function isMostlyKnown(form: string): boolean {
  return (form.match(/[\0-\x7f]/g)?.length ?? 0) >= 4;
}

/** A set of states for each position. */
interface States {
  readonly rows: Int32Array;
  /** 1 where the set has more than state 0. */
  readonly live: Uint8Array;
}

/** Returns the states in which each position can be reached; `undefined` when nothing was found. */
function statesOf(text: SearchText, automaton: Automaton): States | undefined {
  const { codes, others, cut } = text;
  const { length, words, masks, inner, first } = automaton;
  const [begin] = first;
  const rows = new Int32Array((codes.length + 1) * words);
  const live = new Uint8Array(codes.length + 1);
  let isFound = false;

  const follow = (at: number, to: number, code: number): void => {
    const mask = code === skipped ? inner : masks.get(code);
    if (mask === undefined) return;
    const shift = code === skipped ? 0 : 1;
    setBit(rows, at * words, 0);
    if (!moveStates(rows, at * words, to * words, mask, shift)) return;
    live[to] = 1;
    if (hasBit(rows, to * words, length)) isFound = true;
  };

  const mayBegin = (code: number): boolean =>
    code === begin || (first.length > 1 && first.includes(code));
  for (let at = 0; at < codes.length; at++) {
    const isLive = live[at] === 1;
    const code = codes[at] as number;
    // Nearly every position of nearly every text leads nowhere.
    if (isLive || mayBegin(code)) follow(at, at + 1, code);
    const readings = others[at];
    if (readings === undefined) continue;
    for (const each of readings) {
      if (isLive || mayBegin(each.code)) follow(at, each.end, each.code);
    }
  }
  return isFound || (cut && live[codes.length] === 1) ? { rows, live } : undefined;
}

/** Marks the edges of all ways that lead to the end of the form, or of the cut text. */
function markUsed(
  { codes, others, cut }: SearchText,
  { length, words, masks, inner }: Automaton,
  { rows, live }: States,
  mark: (start: number, end: number) => void,
): void {
  /** For each position the states from which the end can be reached. */
  const useful = new Int32Array(rows.length);
  for (let at = 0; at <= codes.length; at++) setBit(useful, at * words, length);
  if (cut)
    for (let state = 1; state <= length; state++) setBit(useful, codes.length * words, state);

  const follow = (at: number, to: number, code: number): void => {
    const mask = code === skipped ? inner : masks.get(code);
    if (mask === undefined) return;
    const shift = code === skipped ? 0 : 1;
    if (keepUseful(useful, rows, at * words, to * words, mask, shift)) mark(at, to);
  };

  for (let at = codes.length - 1; at >= 0; at--) {
    for (const { end, code } of others[at] ?? []) if (live[end] === 1) follow(at, end, code);
    if (live[at + 1] === 1) follow(at, at + 1, codes[at] as number);
  }
}

/**
 * Adds the states at `from` that are in the mask to those at `to`, each `shift` (0 or 1) higher.
 * Returns whether there are any.
 */
function moveStates(
  rows: Int32Array,
  from: number,
  to: number,
  mask: Int32Array,
  shift: number,
): boolean {
  let carry = 0;
  let any = 0;
  for (let word = 0; word < mask.length; word++) {
    const set = (rows[from + word] as number) & (mask[word] as number);
    any |= set;
    rows[to + word] = (rows[to + word] as number) | (set << shift) | carry;
    carry = shift === 0 ? 0 : set >>> 31;
  }
  return any !== 0;
}

/** The way back of {@link moveStates}: adds the states at `from` that lead to useful ones at `to`. */
function keepUseful(
  useful: Int32Array,
  rows: Int32Array,
  from: number,
  to: number,
  mask: Int32Array,
  shift: number,
): boolean {
  let carry = 0;
  let any = 0;
  for (let word = mask.length - 1; word >= 0; word--) {
    const there = useful[to + word] as number;
    const moved = (there >>> shift) | carry;
    const used = moved & (mask[word] as number) & (rows[from + word] as number);
    any |= used;
    useful[from + word] = (useful[from + word] as number) | used;
    carry = shift === 0 ? 0 : there << 31;
  }
  return any !== 0;
}

function setBit(words: Int32Array, from: number, bit: number): void {
  words[from + (bit >> 5)] = (words[from + (bit >> 5)] as number) | (1 << (bit & 31));
}

function hasBit(words: Int32Array, from: number, bit: number): boolean {
  return ((words[from + (bit >> 5)] as number) & (1 << (bit & 31))) !== 0;
}
