import { isAbsolute, join } from 'node:path';

/** What the place of the data folder depends on. */
export interface Place {
  /** As in `process.platform`. */
  readonly platform: NodeJS.Platform;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Home folder of the user. */
  readonly home: string;
  /** Whether the working directory has a folder `data`. */
  readonly hasLocalFolder: boolean;
}

/**
 * Returns the data folder of a service whose settings name none: `./data` where that is a folder, as in
 * the checkout; otherwise the platform's place for the data of a program. On Linux that is
 * `$XDG_DATA_HOME/leat`, else `~/.local/share/leat`, where a relative path counts as not set (XDG Base
 * Directory Specification, Basics).
 */
export function defaultDataFolder({ platform, env, home, hasLocalFolder }: Place): string {
  if (hasLocalFolder) return './data';
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', 'leat');
  if (platform === 'win32') return join(env['LOCALAPPDATA'] ?? join(home, 'AppData/Local'), 'leat');
  const dataHome = env['XDG_DATA_HOME'] ?? '';
  return join(isAbsolute(dataHome) ? dataHome : join(home, '.local', 'share'), 'leat');
}
