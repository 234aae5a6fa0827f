import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { git } from './git.ts';

/** Files and folders that the package has as they are. The README links to them. */
const documents = [
  'README.md',
  'CHANGELOG.md',
  'LICENSE',
  'ARCHITECTURE.md',
  'docs',
  'examples',
  'deploy',
];

/**
 * Returns the paths of the documents of the package, sorted. In a git checkout those are the files that git
 * tracks: `deploy` is where the documents tell people to write a `.env` with passwords. In an archive of
 * the sources they are all files whose path has no name that begins with a dot.
 *
 * @param folder of the checkout, with a slash at its end
 */
export function documentsIn(folder: string): string[] {
  if (existsSync(join(folder, '.git'))) return trackedIn(folder);
  const folders = documents.map((path) => join(folder, path, '**/*'));
  const files = globSync([...documents.map((path) => join(folder, path)), ...folders], {
    withFileTypes: true,
  })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length).replaceAll('\\', '/'));
  return files.filter((path) => !/(?:^|\/)\./.test(path)).toSorted();
}

function trackedIn(folder: string): string[] {
  const listed = git(folder, ['ls-files', '-z', '--', ...documents]);
  if (listed === undefined) {
    throw new Error(`git cannot list the files of ${folder}: run git status there`);
  }
  const paths = listed.split('\0').filter((path) => path !== '');
  return paths.filter((path) => existsSync(join(folder, path))).toSorted();
}
