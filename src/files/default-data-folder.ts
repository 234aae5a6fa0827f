import { isAbsolute, join } from 'node:path';

/** What the place of the data folder depends on. */
export interface Place {
  /** As in `process.platform`. */
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Home folder of the user; `undefined` where it has none. */
  readonly home: string | undefined;
  /** Whether the working directory has a folder `data`. */
  readonly hasLocalFolder: boolean;
}

/**
 * Returns the data folder of a service whose settings name none: `./data` where that is a folder, as in
 * the checkout; otherwise the platform's place for the data of a program. On Linux that is
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
