import { decodeSecret, isSecret } from './sign.ts';

/** A text that may be stored and shown, or why none may. */
export type Redacted = { readonly text: string } | { readonly withheld: 'secret' | 'time' };

/**
 * Searches a text for secrets, also in what up to two decodings make of it (docs/http-api.md#redaction).
 * One with a secret of 8 characters or more is withheld as a whole; secrets of 4 to 7 become `***`
 * where they stand as they are, and shorter ones are not searched.
 *
 * @param cut the text was cut off: the first 8 characters of a secret near its end count as the secret
 * @param isLate returns true when the time is over; what was not searched to its end is withheld
 * then. Asked only when decoding makes much of the text, so that no ordinary one depends on how busy
 * the machine is.
 */
export function redact(
  text: string,
  secrets: readonly string[],
  cut: boolean,
  isLate: () => boolean,
): Redacted {
  const sent = secrets.map((secret) => secret.trim().toWellFormed());
  const forms = [...new Set(sent.flatMap(formsOf))];
  let bytes = 0;
  if (forms.length > 0) {
    for (const reading of readingsOf(bytesOf(text), decodingsMax)) {
      bytes += reading.length;
      if (bytes > ordinaryBytesMax && isLate()) return { withheld: 'time' };
      if (forms.some((form) => hasForm(reading, form, cut))) return { withheld: 'secret' };
    }
  }
  return { text: masked(text, sent) };
}

/** Characters. The digits and letters of shorter secrets are found in texts that do not repeat them. */
const searchedMin = 8;
/** Characters; of shorter ones the mask would tell more than it hides. */
const maskedMin = 4;

/** What all decodings make of 2 KiB of prose, JSON or base64 has less. */
const ordinaryBytesMax = 32 * 1024;

/** Returns the byte strings, one character for each byte, whose presence shows a secret. */
function formsOf(sent: string): string[] {
  const characters = Array.from(sent).length;
  if (characters < searchedMin) return [];
  const bytes = bytesOf(sent);
  // What a receiver sends that reads each byte of a header as a character, or writes ISO 8859-1.
  const forms = [bytes, bytesOf(bytes)];
  if (!/[^\0-\xff]/.test(sent)) forms.push(sent);
  if (isSecret(sent)) forms.push(Buffer.from(decodeSecret(sent)).toString('latin1'));
  return forms;
}

function hasForm(reading: string, form: string, cut: boolean): boolean {
  if (reading.includes(form)) return true;
  return cut && reading.slice(-(form.length + escapeBytesMax)).includes(form.slice(0, searchedMin));
}

/** More than the cut leaves of an escape that is in another one. */
const escapeBytesMax = 32;

function masked(text: string, sent: readonly string[]): string {
  const short = sent.filter((secret) => {
    const { length } = Array.from(secret);
    return length >= maskedMin && length < searchedMin;
  });
  const forms = short.flatMap((secret) => [secret, bytesOf(secret)]);
  // Longer ones first: a part of them would leave the rest.
  const ordered = forms.toSorted((a, b) => b.length - a.length);
  return ordered.reduce((clean, form) => clean.replaceAll(form, '***'), text);
}

/** JSON within JSON is read, a third level is not. */
const decodingsMax = 2;

/** Returns the text and what it is after up to so many decodings, each when it is asked for. */
function* readingsOf(text: string, decodings: number): Generator<string> {
  yield text;
  if (decodings === 0) return;
  for (const decode of decoders) {
    const decoded = decode(text);
    if (decoded !== '' && decoded !== text) yield* readingsOf(decoded, decodings - 1);
  }
}

/** Byte strings to byte strings. What is not encoded stays, or is left out. */
const decoders: readonly ((text: string) => string)[] = [
  fromPercent,
  // The encoding of forms.
  (text) => (text.includes('+') ? fromPercent(text.replaceAll('+', ' ')) : ''),
  fromString,
  fromHtml,
  // A text that is encoded along with what is before it begins at any digit.
  ...[0, 1, 2, 3].map((start) => (text: string) => fromBase64(text, start)),
  ...[0, 1].map((start) => (text: string) => fromHex(text, start)),
];

/** RFC 3986 section 2.1. */
function fromPercent(text: string): string {
  return text.replaceAll(/%([0-9a-f]{2})/gi, (_, digits: string) => charOf(digits));
}

/** RFC 8259 section 7, and what string literals have besides: `\x22` and `\'`. */
function fromString(text: string): string {
  const escapes = /((?:\\u[0-9a-f]{4})+)|\\x([0-9a-f]{2})|\\([^0-9a-z])|\\[nr]/gi;
  return text.replaceAll(escapes, (_, units?: string, digits?: string, plain?: string) => {
    if (units === undefined) return digits === undefined ? (plain ?? '\n') : charOf(digits);
    return bytesOf(units.slice(2).split(/\\u/i).map(charOf).join(''));
  });
}

/** HTML Standard, Character reference state; the names are those that encoders write. */
function fromHtml(text: string): string {
  const references = /&(?:#x([0-9a-f]+)|#([0-9]+)|(amp|lt|gt|quot|apos));?/gi;
  return text.replaceAll(references, (whole, hex?: string, decimal?: string, name?: string) => {
    if (name !== undefined) return named.get(name.toLowerCase()) ?? whole;
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    return code <= 0x10_ffff ? bytesOf(String.fromCodePoint(code)) : whole;
  });
}

const named = new Map(Object.entries({ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }));

/** RFC 4648 sections 4 and 5, also in lines, which may be indented. */
function fromBase64(text: string, start: number): string {
  return decodedRuns(text.replaceAll(/[\r\n]\s*/g, ''), /[a-z0-9+/_-]{11,}/gi, 'base64', start);
}

/** RFC 4648 section 8, also with `:`, `-` or white space between. */
function fromHex(text: string, start: number): string {
  return decodedRuns(text.replaceAll(/[:\-\s]/g, ''), /[0-9a-f]{16,}/gi, 'hex', start);
}

/** Returns the bytes of the runs that are long enough for a secret, one run in a line. */
function decodedRuns(text: string, runs: RegExp, notation: 'base64' | 'hex', start: number) {
  const decoded = text
    .match(runs)
    ?.map((run) => Buffer.from(run.slice(start), notation).toString('latin1'));
  return decoded?.join('\n') ?? '';
}

function charOf(hexDigits: string): string {
  return String.fromCharCode(Number.parseInt(hexDigits, 16));
}

/** Returns the UTF-8 of a text, one character for each byte. */
function bytesOf(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}
