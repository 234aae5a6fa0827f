/**
 * Replaces each occurrence of a secret by `***`. Overlapping occurrences become one, so that no
 * part of a secret is left next to another.
 *
 * @param cut the text was cut off: an end that is the beginning of a secret is replaced, too
 */
export function redact(text: string, secrets: readonly string[], cut: boolean): string {
  const spans = secrets
    .filter((secret) => secret !== '')
    .flatMap((secret) => [...occurrences(text, secret), ...(cut ? cutOff(text, secret) : [])])
    .toSorted((a, b) => a.start - b.start);
  let clean = '';
  let end = 0;
  for (const span of spans) {
    if (span.start >= end) clean += `${text.slice(end, span.start)}***`;
    end = Math.max(end, span.end);
  }
  return clean + text.slice(end);
}

interface Span {
  readonly start: number;
  readonly end: number;
}

function occurrences(text: string, secret: string): Span[] {
  const found: Span[] = [];
  for (let at = text.indexOf(secret); at >= 0; at = text.indexOf(secret, at + 1)) {
    found.push({ start: at, end: at + secret.length });
  }
  return found;
}

/** Finds the longest end of the text that is a beginning of the secret. */
function cutOff(text: string, secret: string): Span[] {
  const from = Math.max(0, text.length - secret.length + 1);
  for (let start = from; start < text.length; start++) {
    if (secret.startsWith(text.slice(start))) return [{ start, end: text.length }];
  }
  return [];
}
