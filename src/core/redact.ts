import { readEscapes } from './escapes.ts';
import { findForm, searchTextOf, skipped } from './form-search.ts';
import { formsOf, type Notation } from './secret-forms.ts';

/**
 * Replaces each part of a text that holds a secret by `***`: the secret itself, in the escapes of
 * {@link readEscapes}, and its bytes as base64 or hexadecimal digits (docs/http-api.md#redaction).
 * Occurrences that touch become one.
 *
 * The time is bounded by the lengths alone: for each form of a secret (about five per secret) and each
 * character at most 1/32 of the length of the form, or of the text where that is shorter. A short text
 * takes no time when the same list was used for it before: a receiver that fails repeats itself.
 *
 * @param secrets a list that does not change
 * @param cut the text was cut off: an end that is the beginning of a secret is replaced, too
 */
export function redact(text: string, secrets: readonly string[], cut: boolean): string {
  if (text === '' || secrets.length === 0) return text;
  const known = latest.get(secrets);
  if (known?.text === text && known.cut === cut) return known.clean;
  const clean = withoutSecrets(text, secrets, cut);
  if (text.length <= rememberedMax) latest.set(secrets, { text, cut, clean });
  return clean;
}

interface Redacted {
  readonly text: string;
  readonly cut: boolean;
  readonly clean: string;
}

/** Characters. Some 50,000 streams that fail take 50 MB. */
const rememberedMax = 512;

/** The last text for a list of secrets: each stream has a list of its own. */
const latest = new WeakMap<readonly string[], Redacted>();

function withoutSecrets(text: string, secrets: readonly string[], cut: boolean): string {
  const forms = formsOf(secrets, text.length);
  const readings = readEscapes(text);
  const hidden = new Uint8Array(text.length);
  for (const notation of notations) {
    const searched = searchTextOf(text, readings, folds[notation], cut);
    const widen = notation === 'base64' ? widenBase64 : asFound;
    for (const form of forms[notation]) {
      findForm(searched, form, (start, end) => hidden.fill(1, ...widen(text, start, end)));
    }
  }
  return masked(text, hidden);
}

const notations: readonly Notation[] = ['text', 'base64', 'hex'];

/** What means the same in a notation, as one code. */
const folds: Readonly<Record<Notation, (code: number) => number>> = {
  text: (code) => code,
  base64: foldOf({ '-': '+', _: '/' }, '\r\n'),
  hex: foldOf({ A: 'a', B: 'b', C: 'c', D: 'd', E: 'e', F: 'f' }, ':- %\\x'),
};

function foldOf(same: Readonly<Record<string, string>>, between: string) {
  const codes = Array.from({ length: 128 }, (_, code) => {
    const character = String.fromCharCode(code);
    return between.includes(character) ? skipped : (same[character] ?? character).charCodeAt(0);
  });
  return (code: number): number => codes[code] ?? code;
}

type Range = [start: number, end: number];

function asFound(_text: string, start: number, end: number): Range {
  return [start, end];
}

/** Adds the characters that have bits of the secret and of its neighbours, and the padding. */
function widenBase64(text: string, start: number, end: number): Range {
  const isShared = (at: number): boolean => /[A-Za-z0-9+/_-]/.test(text.charAt(at));
  let after = isShared(end) ? end + 1 : end;
  while (text.charAt(after) === '=') after++;
  return [start > 0 && isShared(start - 1) ? start - 1 : start, after];
}

function masked(text: string, hidden: Uint8Array): string {
  let clean = '';
  let at = 0;
  while (at < text.length) {
    const start = hidden.indexOf(1, at);
    if (start < 0) break;
    const end = hidden.indexOf(0, start);
    clean += `${text.slice(at, start)}***`;
    at = end < 0 ? text.length : end;
  }
  return clean + text.slice(at);
}
