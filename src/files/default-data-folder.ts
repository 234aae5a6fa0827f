import { isAbsolute, join } from 'node:path';

/** What the place of the data folder depends on. */
export interface Place {
  /** As in `process.platform`. */
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Home folder of the user; `undefined` where it has none. */
  readonly home: string | undefined;
  /** Whether the working directory has a folder `data` that Leat may use. */
  readonly hasLocalFolder: boolean;
}

/** Files of which a data folder has one at least, unless it is a new one. */
const ownNames: ReadonlySet<string> = new Set([
  '.leat',
  'leat.db',
  'secret.key',
  'secret.key.new',
  'bootstrap.json',
  'tls-ca.pem',
]);

/** What file systems and their programs put into an empty folder. */
const systemNames: ReadonlySet<string> = new Set(['lost+found', '.DS_Store', '.snapshot']);

/**
 * Returns a file that shows that a folder `data` belongs to another program, by the names in it;
 * `undefined` for one of Leat, or without files. A hidden file counts: `.gitkeep` keeps a folder in the
 * repository of a project, which would get the database and its secrets.
 */
export function foreignFile(names: readonly string[]): string | undefined {
  if (names.some((name) => ownNames.has(name))) return undefined;
  return names.find((name) => !systemNames.has(name));
}

/**
 * Returns the data folder of a service whose settings name none: `./data` where that is a folder of
 * Leat or an empty one, as in the checkout; otherwise the platform's place for the data of a program. On Linux that is
 * `$XDG_DATA_HOME/leat`, else `~/.local/share/leat`, where a relative path counts as not set (XDG Base
 * Directory Specification, Basics). A user without a home folder has no such place: `./data` again.
 */
export function defaultDataFolder({ platform, env, home, hasLocalFolder }: Place): string {
  if (hasLocalFolder) return './data';
  const dataHome = dataHomeOf(platform, env);
  if (dataHome !== undefined) return join(dataHome, 'leat');
  if (home === undefined) return './data';
  return join(home, inHome[platform] ?? '.local/share', 'leat');
}

/** Returns the folder for the data of programs that a variable names. */
function dataHomeOf(platform: Place['platform'], env: Place['env']): string | undefined {
  if (platform === 'darwin') return undefined;
  if (platform === 'win32') return env['LOCALAPPDATA'];
  const dataHome = env['XDG_DATA_HOME'] ?? '';
  return isAbsolute(dataHome) ? dataHome : undefined;
}

/** Where other platforms than Linux keep the data of programs in a home folder. */
const inHome: Partial<Record<Place['platform'], string>> = {
  darwin: 'Library/Application Support',
  win32: 'AppData/Local',
};
