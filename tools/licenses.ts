import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** A piece of work of others, with the texts that must go with each copy. */
export interface Part {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly texts: readonly string[];
}

/**
 * Returns the folders of the packages that modules belong to, relative to the root, sorted. Modules
 * that a bundler adds, whose names begin with NUL, belong to its package.
 */
export function packageFolders(modules: readonly string[], root: string): string[] {
  const folders = modules.flatMap((module) => {
    if (module.startsWith('\0')) return `node_modules/${/^\0([^/]+)/.exec(module)?.[1] ?? ''}`;
    const path = module.slice(root.length).replaceAll('\\', '/');
    return /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0] ?? [];
  });
  return [...new Set(folders)].toSorted();
}

/** Reads a package. Throws when it has no text of its licence and none is known. */
export function readPart(folder: string): Part {
  const { name, version, license } = JSON.parse(
    readFileSync(join(folder, 'package.json'), 'utf8'),
  ) as Omit<Part, 'texts'>;
  const texts = textsIn(folder);
  const known = knownTexts[name];
  if (texts.length === 0 && known !== undefined) texts.push(known);
  if (texts.length === 0) {
    throw new Error(
      `${name} ${version} (${license}) has no licence text: add the one of its repository to knownTexts in tools/licenses.ts`,
    );
  }
  return { name, version, license, texts: [...texts, ...(containedTexts[name] ?? [])] };
}

/** Returns the text of THIRD_PARTY_LICENSES. */
export function licensesText(parts: readonly Part[]): string {
  const sections = parts.map(({ name, version, license, texts }) =>
    [`${name} ${version} (${license})`, ...texts].join('\n\n'),
  );
  const intro = `Leat contains the following work of others, under these licences.`;
  return `${[intro, ...sections].join(`\n\n${'='.repeat(80)}\n\n`)}\n`;
}

/** Parts that are no packages of the lock file. */
export const copiedParts: readonly Part[] = [
  {
    name: 'zxcvbn, frequencies of passwords',
    version: '4.4.2',
    license: 'MIT',
    texts: [mit('2012-2016 Dan Wheeler and Dropbox, Inc.')],
  },
];

/** Texts of packages that name their licence but leave its text out. */
const knownTexts: Readonly<Record<string, string>> = {
  'abstract-logging': mit('James Sumners'),
};

/**
 * Texts of the work of others that packages contain without its licence: the bundle has neither its comments nor,
 * of compiled code, its sources.
 */
const containedTexts: Readonly<Record<string, readonly string[]>> = {
  undici: [
    contained('llhttp', 'Fedor Indutny, 2018'),
    contained(
      'parts of ws',
      '2011 Einar Otto Stangvik, 2013 Arnout Kazemier and contributors, 2016 Luigi Pinca and contributors',
    ),
    contained('a part of formdata-polyfill', 'Jimmy Wärting'),
  ],
  nodemailer: [contained('punycode.js', 'Mathias Bynens <https://mathiasbynens.be/>')],
};

function contained(work: string, holder: string): string {
  return `It contains ${work}:\n\n${mit(holder)}`;
}

/** Files about licences, in the order of their names; without any, the section of the README. */
function textsIn(folder: string): string[] {
  const names = readdirSync(folder).toSorted();
  const files = names.filter((name) => /^(?:licen[cs]e|copying|notice)(?:\.\w+)?$/i.test(name));
  // The licences of what the file that Leat serves contains.
  const bundled = 'swagger-ui-bundle.js.LICENSE.txt';
  if (names.includes(bundled)) files.push(bundled);
  const read = (name: string): string => readFileSync(join(folder, name), 'utf8').trim();
  if (files.length > 0) return files.map(read);
  const readme = names.find((name) => /^readme\.md$/i.test(name));
  const section = readme === undefined ? undefined : /^#+ *licen[cs]e\n(.*)/ims.exec(read(readme));
  const text = section?.[1]?.trim() ?? '';
  return text.includes('Permission is hereby granted') ? [text] : [];
}

/** Returns the licence of Node itself, with those of its libraries, for an executable that contains it. */
export function nodePart(): Part {
  const file = join(process.execPath, '..', '..', 'LICENSE');
  if (!existsSync(file)) throw new Error(`Node has no licence text at ${file}`);
  const { node } = process.versions;
  return { name: 'Node.js', version: node, license: 'MIT', texts: [readFileSync(file, 'utf8')] };
}

function mit(holder: string): string {
  return `MIT License

Copyright (c) ${holder}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction, including
without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the
following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO
EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR
THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;
}
