import {
  credentialsFile,
  type Profile,
  type Profiles,
  updateProfiles,
} from './http/credentials.ts';
import type { LockDeps } from './http/file-lock.ts';
import { defaultProfile } from './http/session.ts';
import type { CliEnv } from './env.ts';
import { freeName } from './profile-name.ts';

/** Dependencies of the login of `leat dev`. */
export interface DevLoginDeps extends LockDeps {
  readonly env: Pick<CliEnv, 'configHome'>;
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
  { env, hasEnded, ...deps }: DevLoginDeps,
): Promise<DevLogin> {
  const file = credentialsFile(env.configHome);
  const left: string[] = [];
  let name = defaultProfile;
  const add = async (present: Profiles): Promise<Profiles> => {
    const kept: Record<string, Profile> = {};
    for (const [each, login] of Object.entries(present)) {
      const isLeft = login.devFolder !== undefined && (await hasEnded(login.devFolder));
      if (isLeft && login.devFolder !== undefined) left.push(login.devFolder);
      else kept[each] = login;
    }
    name = defaultProfile in kept ? freeName('dev', Object.keys(kept)) : defaultProfile;
    return { ...kept, [name]: profile };
  };
  const remove = (present: Profiles): Profiles | undefined => {
    const all = Object.entries(present);
    const others = all.filter(([, { devFolder }]) => devFolder !== profile.devFolder);
    return others.length === all.length ? undefined : Object.fromEntries(others);
  };
  await updateProfiles(file, add, deps);
  return {
    profile: name === defaultProfile ? undefined : name,
    left,
    remove: () => updateProfiles(file, remove, deps),
  };
}
