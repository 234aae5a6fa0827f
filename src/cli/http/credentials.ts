import { constants } from 'node:fs';
import { chmod, mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf } from '../../core/errors.ts';
import { writeAtomically } from '../../files/atomic-write.ts';
import { homeFolder } from '../../files/home-folder.ts';
import { CommandFailed, exitCodes } from '../errors.ts';
import type { AccessToken, TokenRequest } from './access-token.ts';
import { type LockDeps, withFileLock } from './file-lock.ts';

/** A login: a server, the credentials of a client there, and its current access token. */
export interface Profile extends TokenRequest {
  /** Origin of the server, without a slash at its end. */
  readonly url: string;
  /** PEM file of the authority that signed the server's certificate; absolute. */
  readonly caFile?: string;
  readonly token?: AccessToken;
  /** Folder of the `leat dev` that has written it: the login ends with that command. */
  readonly devFolder?: string;
}

/** Profiles by name. */
export type Profiles = Readonly<Record<string, Profile>>;

/**
 * Returns the file of the profiles: `$XDG_CONFIG_HOME/leat/credentials.json`, else in `~/.config`. Throws
 * {@link CommandFailed} for a user without a home folder.
 */
export function credentialsFile(configHome: string | undefined): string {
  // A relative path counts as not set (XDG Base Directory Specification, Basics).
  if (configHome?.startsWith('/') === true) return join(configHome, 'leat', 'credentials.json');
  const home = homeFolder();
  if (home !== undefined) return join(home, '.config', 'leat', 'credentials.json');
  throw new CommandFailed(
    exitCodes.failed,
    'This user has no home folder, where logins are stored: set HOME or XDG_CONFIG_HOME to a folder.',
  );
}

/**
 * Reads the profiles in a file; none when there is no file. Throws {@link CommandFailed} when anyone
 * but its owner can read or change it, or when it holds something else.
 */
export async function readProfiles(file: string): Promise<Profiles> {
  const text = await readPrivate(file);
  if (text === undefined) return {};
  const profiles = profilesIn(text);
  if (profiles !== undefined) return profiles;
  throw new CommandFailed(
    exitCodes.failed,
    `${file} is not what a login writes: remove it and log in again.`,
  );
}

/**
 * Writes what `change` makes of the present profiles, unless that is `undefined`. Other commands that
 * change them wait meanwhile: none of two changes is lost. The file is written atomically, and at no
 * moment can anyone but the owner read it.
 */
export async function updateProfiles(
  file: string,
  change: (present: Profiles) => Profiles | undefined | Promise<Profiles | undefined>,
  deps: LockDeps,
): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await chmod(dirname(file), 0o700);
    await withFileLock(file, deps, async () => {
      const profiles = await change(await readProfiles(file));
      if (profiles === undefined) return;
      const text = `${JSON.stringify({ version: 1, profiles }, undefined, 2)}\n`;
      await writeAtomically(file, text, { random: deps.random, mode: 0o600 });
    });
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    throw unusableFile(file, error);
  }
}

/** Checks the mode of the opened file, so that the file cannot be replaced in between. */
async function readPrivate(file: string): Promise<string | undefined> {
  try {
    const handle = await open(file, constants.O_RDONLY);
    try {
      const mode = (await handle.stat()).mode & 0o777;
      if ((mode & 0o077) !== 0) throw readableByOthers(file, mode);
      return await handle.readFile('utf8');
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof CommandFailed) throw error;
    if (codeOf(error) === 'ENOENT') return undefined;
    throw unusableFile(file, error);
  }
}

function readableByOthers(file: string, mode: number): CommandFailed {
  return new CommandFailed(
    exitCodes.authentication,
    `${file} holds secrets and is open to others (mode 0${mode.toString(8)}): ` +
      `if nobody else can have read it, run \`chmod 600 ${file}\`; else renew the secrets first.`,
  );
}

function unusableFile(file: string, error: unknown): unknown {
  const code = codeOf(error);
  if (code === undefined) return error;
  const message = `${file} cannot be used (${code}): check its folder and who owns it, or set XDG_CONFIG_HOME to another folder.`;
  return new CommandFailed(exitCodes.failed, message, { cause: error });
}

function profilesIn(text: string): Profiles | undefined {
  try {
    const stored = Object(JSON.parse(text)) as { readonly version?: unknown; profiles?: unknown };
    if (stored.version !== 1) return undefined;
    const profiles = Object.entries(Object(stored.profiles));
    return profiles.every(([, profile]) => isProfile(profile))
      ? (Object.fromEntries(profiles) as Profiles)
      : undefined;
  } catch {
    return undefined;
  }
}

function isProfile(value: unknown): boolean {
  const fields = Object(value) as Record<string, unknown>;
  return ['url', 'clientId', 'clientSecret', 'audience'].every(
    (name) => typeof fields[name] === 'string',
  );
}
