/**
 * Returns the one form of a name that several texts of the same look can write: Unicode in NFC, with the
 * ordinary space for the spaces that look like it (U+00A0, U+2000 to U+200A, U+202F, U+205F).
 */
export function nameForm(text: string): string {
  return text.replaceAll(/[\u00A0\u2000-\u200A\u202F\u205F]/g, ' ').normalize('NFC');
}

/** Returns the forms in which a name may be stored, the present one first: earlier versions kept others. */
export function storedNames(name: string): readonly string[] {
  return [...new Set([name, name.normalize('NFD')])];
}

/**
 * Returns the first character of a name that shows nothing, as `U+200B`; `undefined` if there is none.
 * With it, two different names would look the same. Characters that change how their neighbours look are
 * no such ones: those of an emoji, a joiner or non-joiner inside a word of a script that has them, and
 * the selector of an ideograph's variant.
 */
export function invisibleIn(text: string): string | undefined {
  const [found] = invisible.exec(text.replaceAll(/\p{RGI_Emoji}/gv, shown)) ?? [];
  const codePoint = found?.codePointAt(0);
  return codePoint === undefined
    ? undefined
    : `U+${codePoint.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** Stands for an emoji, which may consist of several characters. */
const shown = '\u{1F600}';

/** The scripts in which joiners show nothing, as do marks and letters of no script. */
const unjoined = ['Latn', 'Grek', 'Cyrl', 'Armn', 'Geor', 'Hebr', 'Thai', 'Hang', 'Hani', 'Hira']
  .concat('Kana', 'Zinh', 'Zyyy')
  .map((script) => String.raw`\p{Script=${script}}`)
  .join('');

/** What a joiner can be between. */
const joined = String.raw`[\p{Extended_Pictographic}\p{Emoji_Modifier}[[\p{L}\p{M}]--[${unjoined}]]]`;

const joiner = String.raw`\u200C\u200D`;
const ideographVariant = String.raw`\u{E0100}-\u{E01EF}`;
const showsNothing = String.raw`\p{Default_Ignorable_Code_Point}\p{Cc}\p{Zl}\p{Zp}\u2800\uFFF9-\uFFFB`;

const invisible = new RegExp(
  [
    String.raw`(?<!${joined})[${joiner}]`,
    String.raw`[${joiner}](?!${joined})`,
    String.raw`(?<!\p{Script=Hani})[${ideographVariant}]`,
    String.raw`[[${showsNothing}]--[${joiner}${ideographVariant}]]`,
  ].join('|'),
  'v',
);
