import { decodeSecret, isSecret } from './sign.ts';

/** How a secret is written: as itself, or its bytes as base64 or hexadecimal digits. */
export type Notation = 'text' | 'base64' | 'hex';

/**
 * Returns every form in which a text can hold one of the secrets, without repeats. Forms that are
 * longer than `lengthMax` lack their end.
 */
export function formsOf(secrets: readonly string[], lengthMax: number): Record<Notation, string[]> {
  const shown = secrets.map((secret) => sentTextOf(secret));
  const cut = shown.map((secret) => secret.slice(0, lengthMax + 1));
  const binaries = [...cut.flatMap(encodingsOf), ...shown.filter(isSecret).map(keyOf)];
  const long = [...new Set(binaries)].filter(({ length }) => length >= bytesMin);
  return {
    text: [...new Set(cut.flatMap((text) => [text, latin1Of(text)]))].filter((text) => text !== ''),
    base64: [...new Set(long.flatMap(base64Of))],
    hex: long.map((binary) => Buffer.from(binary, 'latin1').toString('hex')),
  };
}

/** Digits of fewer bytes are found in texts that have nothing to do with the secret. */
const bytesMin = 4;

/** Returns the secret as it is sent: receivers remove white space around the value of a header. */
function sentTextOf(secret: string): string {
  const trimmed = secret.trim();
  return (trimmed.length >= bytesMin ? trimmed : secret).toWellFormed();
}

/** Returns the bytes of a text, one per character, and those of its JSON, encoded with the rest of it. */
function encodingsOf(text: string): string[] {
  return [latin1Of(text), latin1Of(JSON.stringify(text).slice(1, -1))];
}

/** Returns the UTF-8 of a text, as a receiver sees it that reads each byte of a header as a character. */
function latin1Of(text: string): string {
  return Buffer.from(text, 'utf8').toString('latin1');
}

function keyOf(signingSecret: string): string {
  return Buffer.from(decodeSecret(signingSecret)).toString('latin1');
}

/**
 * Returns the base64 (RFC 4648 section 4) of the bytes for each number of bytes before them, without
 * the characters that they share with other bytes.
 */
function base64Of(binary: string): string[] {
  return [0, 1, 2].map((before) => {
    const bytes = Buffer.from('\0'.repeat(before) + binary, 'latin1');
    const start = Math.ceil((before * 8) / 6);
    const end = Math.floor((bytes.length * 8) / 6);
    return bytes.toString('base64').slice(start, end);
  });
}
