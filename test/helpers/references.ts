/** A reference found in a text: a path from the root of the repository, and an anchor of it. */
export interface Reference {
  /** May hold `*` and `{a,b}`, as documents name groups of tests. */
  readonly path: string;
  /** Heading as a link names it; `undefined` for the whole file. */
  readonly anchor: string | undefined;
}

/** Returns the documents that a source file cites, as `docs/http-api.md#errors` in a comment. */
export function citationsIn(source: string): Reference[] {
  return [...source.matchAll(CITATION)].map(({ groups }) => ({
    path: groups?.['path'] ?? '',
    anchor: groups?.['anchor'],
  }));
}

const CITATION =
  /(?<![\w/])(?<path>(?:docs\/[\w/-]+|README|ARCHITECTURE|CONTRIBUTING)\.md)(?:#(?<anchor>[\w-]+))?/g;

/**
 * Returns what a Markdown document refers to: the relative targets of its links, and the paths in
 * code spans that begin with a folder of the repository.
 *
 * @param path of the document; links are relative to it
 */
export function referencesIn(path: string, text: string): Reference[] {
  const prose = text.replaceAll(/^```.*?^```$/gms, '');
  const links = [...prose.matchAll(/\]\((?<target>[^)\s]+)\)/g)]
    .map(({ groups }) => groups?.['target'] ?? '')
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const { pathname, hash } = new URL(target, `file:///${path}`);
      return { path: pathname.slice(1), anchor: hash === '' ? undefined : hash.slice(1) };
    });
  const spans = [...prose.matchAll(/`(?<path>(?:src|test|bench|docs|tools)\/[\w.*{},/-]*)`/g)];
  return [
    ...links,
    ...spans.map(({ groups }) => ({ path: groups?.['path'] ?? '', anchor: undefined })),
  ];
}

/** Returns the anchors that GitHub gives the headings of a Markdown document. */
export function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  const prose = text.replaceAll(/^```.*?^```$/gms, '');
  for (const { groups } of prose.matchAll(/^#{1,6} (?<heading>.+)$/gm)) {
    const heading = (groups?.['heading'] ?? '').replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1');
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-');
    let anchor = slug;
    for (let count = 1; anchors.has(anchor); count += 1) anchor = `${slug}-${count}`;
    anchors.add(anchor);
  }
  return anchors;
}
