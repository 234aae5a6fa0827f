import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Returns a Markdown text without links to files that are missing; their texts stay. The package has the
 * documents of the checkout without its sources and tests.
 *
 * @param isPresent of a relative path without its anchor
 */
export function withoutDeadLinks(text: string, isPresent: (path: string) => boolean): string {
  return text.replaceAll(/\[([^\]]*)\]\(([^)\s]+)\)/g, (link, name: string, target: string) => {
    const [path = ''] = target.split('#');
    const isKept = path === '' || /^[a-z]+:/.test(target) || isPresent(path);
    return isKept ? link : name;
  });
}

/** Removes the links to missing files from all documents of a folder. */
export function removeDeadLinks(folder: string): void {
  for (const name of globSync('**/*.md', { cwd: folder })) {
    const file = join(folder, name);
    const text = readFileSync(file, 'utf8');
    writeFileSync(
      file,
      withoutDeadLinks(text, (path) => existsSync(join(dirname(file), path))),
    );
  }
}
