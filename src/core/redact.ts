/**
 * Replaces each occurrence of a secret by `***`. Occurrences that overlap become one; so no rest
 * of one secret stays beside another.
 *
 * @param cut the text was cut off: what its end shares with the beginning of a secret goes, too
 */
export function redact(text: string, secrets: readonly string[], cut: boolean): string {
  const spans = secrets
    .filter((secret) => secret !== '')
    .flatMap((secret) => [...occurrences(text, secret), ...(cut ? brokenOff(text, secret) : [])])
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

/** The longest end of the text that is a beginning of the secret. */
function brokenOff(text: string, secret: string): Span[] {
  const from = Math.max(0, text.length - secret.length + 1);
  for (let start = from; start < text.length; start++) {
    if (secret.startsWith(text.slice(start))) return [{ start, end: text.length }];
  }
  return [];
}
