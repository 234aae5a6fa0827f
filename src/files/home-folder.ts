import { homedir } from 'node:os';

/**
 * Returns the home folder of the user; `undefined` for a user that has none, as with a user id of a
 * container that is not in its list of users, and without `HOME`.
 */
export function homeFolder(): string | undefined {
  try {
    return homedir();
  } catch {
    return undefined;
  }
}
