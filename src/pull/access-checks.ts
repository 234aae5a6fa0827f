import { StoreUnavailable } from '../core/errors.ts';
import type { Log } from '../core/log.ts';

/** The access that the token of a request grants. */
export interface AccessCheck {
  /** The header that carries it; equal for equal tokens, which are checked together. */
  readonly token: string;
  /** Checks the token now. Rejects with `StoreUnavailable` during an outage. */
  stillValid(): boolean | Promise<boolean>;
}

/** Ends the connections whose tokens are no longer valid; each token is checked once. */
export function endRevoked<C extends { readonly access: AccessCheck }>(
  connections: Iterable<C>,
  end: (connection: C) => void,
  log: Pick<Log, 'error'>,
): void {
  const checked = new Map<string, boolean | Promise<boolean>>();
  for (const connection of connections) {
    const { access } = connection;
    const isValid = checked.get(access.token) ?? check(access, log);
    checked.set(access.token, isValid);
    if (isValid === false) end(connection);
    else if (isValid !== true) void endUnless(isValid, () => end(connection));
  }
}

function check(access: AccessCheck, log: Pick<Log, 'error'>): boolean | Promise<boolean> {
  const isValid = access.stillValid();
  if (typeof isValid === 'boolean') return isValid;
  return isValid.catch((error: unknown) => {
    // During an outage the token is checked again at the next tick.
    if (error instanceof StoreUnavailable) return true;
    log.error({ err: error }, 'the token of an open connection could not be checked');
    return false;
  });
}

async function endUnless(isValid: Promise<boolean>, end: () => void): Promise<void> {
  if (!(await isValid)) end();
}
