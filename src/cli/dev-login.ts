import type { RandomBytes } from '../core/clock.ts';
import { credentialsFile, type Profile, readProfiles, writeProfiles } from './http/credentials.ts';
import { defaultProfile } from './http/session.ts';
import type { CliEnv } from './env.ts';

/** Dependencies of the login of `leat dev`. */
export interface DevLoginDeps {
  readonly env: Pick<CliEnv, 'configHome'>;
  readonly random: RandomBytes;
  /** Returns whether the `leat dev` of a folder has ended, however it ended. */
  readonly hasEnded: (folder: string) => Promise<boolean>;
}

/** A login that exists while a `leat dev` runs. */
export interface DevLogin {
  /** Its name; absent: the one that commands use without `--profile`. */
  readonly profile: string | undefined;
  /** Folders of former runs that were killed. Nothing uses them any more. */
  readonly left: readonly string[];
  /** Deletes it, unless another login has replaced it. */
  remove(): Promise<void>;
}

/**
 * Stores the login of a `leat dev` and deletes those of former runs that have ended. It takes the name
 * `default` when no login has it, else `dev`, `dev-2`, …: no other login is ever replaced. Throws
 * {@link CommandFailed} when the file cannot be used.
 */
export async function storeDevLogin(
  profile: Profile & { readonly devFolder: string },
  { env, random, hasEnded }: DevLoginDeps,
): Promise<DevLogin> {
  const file = credentialsFile(env.configHome);
  const kept: Record<string, Profile> = {};
  const left: string[] = [];
  for (const [name, each] of Object.entries(await readProfiles(file))) {
    const isLeft = each.devFolder !== undefined && (await hasEnded(each.devFolder));
    if (isLeft && each.devFolder !== undefined) left.push(each.devFolder);
    else kept[name] = each;
  }
  const name = freeName(Object.keys(kept));
  await writeProfiles(file, { ...kept, [name]: profile }, random);
  return {
    profile: name === defaultProfile ? undefined : name,
    left,
    remove: async () => {
      const present = Object.entries(await readProfiles(file));
      const others = present.filter(([, each]) => each.devFolder !== profile.devFolder);
      if (others.length === present.length) return;
      await writeProfiles(file, Object.fromEntries(others), random);
    },
  };
}

/** Returns the first name for a login of `leat dev` that is not taken. */
export function freeName(taken: readonly string[]): string {
  const names = [defaultProfile, 'dev', ...taken.map((_name, index) => `dev-${index + 2}`)];
  return names.find((name) => !taken.includes(name)) ?? defaultProfile;
}
