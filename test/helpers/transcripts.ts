/** Transcripts of a shell in a Markdown document. */

/** A block of commands: `console` with what they print, or `sh` without. */
export interface Block {
  readonly language: 'console' | 'sh';
  /** The heading above it. */
  readonly heading: string;
  readonly commands: readonly string[];
  /** What the document shows as their output, with the commands; empty for `sh`. */
  readonly output: string;
  /** Where its text begins and ends in the document. */
  readonly from: number;
  readonly to: number;
}

const BLOCK = /^```(?<language>console|sh)\n(?<text>.*?)^```$/gms;

/** Returns the blocks of a document, in order. */
export function blocksOf(document: string): Block[] {
  return [...document.matchAll(BLOCK)].map(({ index, groups, 0: whole }) => {
    const { language, text } = groups as { language: Block['language']; text: string };
    const headings = [...document.slice(0, index).matchAll(/^## (?<title>.+)$/gm)];
    const from = index + whole.indexOf('\n') + 1;
    return {
      language,
      heading: headings.at(-1)?.groups?.['title'] ?? '',
      commands: language === 'sh' ? [text] : commandsIn(text),
      output: language === 'sh' ? '' : text,
      from,
      to: from + text.length,
    };
  });
}

/** A command may go on in lines that a backslash ends. */
function commandsIn(text: string): string[] {
  return [...text.matchAll(/^\$ (?<command>(?:.*\\\n)*.*)$/gm)].map(
    ({ groups }) => groups?.['command'] ?? '',
  );
}

/** Returns the document with other outputs. */
export function withOutputs(document: string, outputs: ReadonlyMap<Block, string>): string {
  let result = document;
  for (const [{ from, to }, output] of [...outputs].toReversed()) {
    result = `${result.slice(0, from)}${output}${result.slice(to)}`;
  }
  return result;
}

/** What differs from run to run, and what stands for it. */
const VARYING: readonly (readonly [RegExp, string])[] = [
  [/\b(?<kind>evt|est|rdl|dsm|rpl|log|whsec)_[A-Za-z0-9+/=_]+/g, '$<kind>_…'],
  [/\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?/g, '<time>'],
  [/\b\d\d:\d\d:\d\d\b/g, '<time>'],
  [/\b\d{4}-\d\d-\d\d\b/g, '<date>'],
  [/\b\d+(?:\.\d+)? (?:ms|s|min|h)\b/g, '<duration>'],
];

/** Returns an output without what differs from run to run, and with single spaces. */
export function normalized(output: string): string {
  let result = output;
  for (const [pattern, instead] of VARYING) result = result.replaceAll(pattern, instead);
  return result.replaceAll(/ +/g, ' ').replaceAll(/ +$/gm, '');
}
