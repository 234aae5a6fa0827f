/** Full-width East Asian scripts and emoji (Unicode Standard Annex #11). */
const wide =
  /[\p{Emoji_Presentation}\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303E\uFF01-\uFF60\uFFE0-\uFFE6]|\uFE0F/u;
/** Half-width Katakana and Hangul. */
const narrow = /^[\uFF61-\uFFDC]/u;
const ascii = /^[\u0020-\u007E]*$/;

/** Returns how many columns of a terminal a printable text takes. */
export function widthOf(text: string): number {
  if (ascii.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemesOf(text)) width += graphemeWidth(segment);
  return width;
}

/** Shortens a text to at most `width` columns; a shortened one ends with `…`. */
export function cutTo(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let cut = '';
  let used = 0;
  for (const { segment } of graphemesOf(text)) {
    used += graphemeWidth(segment);
    if (used > width - 1) break;
    cut += segment;
  }
  return width < 1 ? '' : `${cut}…`;
}

/** Creates the segmenter on demand: the first one of a process takes a tenth of the start of a command. */
function graphemesOf(text: string): Intl.Segments {
  return new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(text);
}

function graphemeWidth(grapheme: string): number {
  return wide.test(grapheme) && !narrow.test(grapheme) ? 2 : 1;
}
