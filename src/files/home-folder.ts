import { homedir, userInfo } from 'node:os';
import { isAbsolute } from 'node:path';

/**
 * Returns the home folder of the user: `HOME`, where that is an absolute path, else the one of the user
 * database. `undefined` for a user without one, such as an arbitrary number in a container.
 */
export function homeFolder(): string | undefined {
  return [homedir, () => userInfo().homedir].map(attempt).find((path) => path !== undefined);
}

/** Both functions throw for a user that the database does not have. */
function attempt(read: () => string): string | undefined {
  try {
    const path = read();
    return isAbsolute(path) ? path : undefined;
  } catch {
    return undefined;
  }
}
