import type { Stream } from '../core/types.ts';
import type { Store } from '../store/port/store.ts';
import { notFound, type Problem, quoted } from './http/problem.ts';

/** The 404 of each noun, with the id that nothing has. */
export const noApi = (id: string): Problem =>
  absent('resource server', id, 'inexistent_resource_server');
export const noClient = (id: string): Problem => absent('client', id, 'inexistent_client');
export const noDismissal = (id: string): Problem => absent('dismissal', id);
export const noEntry = (id: string): Problem => absent('log entry', id, 'inexistent_log');
export const noEvent = (id: string): Problem => absent('event', id);
export const noGrant = (id: string): Problem => absent('grant', id, 'inexistent_client_grant');
export const noRedelivery = (id: string): Problem => absent('redelivery', id);
export const noReplay = (id: string): Problem => absent('replay', id);
export const noRole = (id: string): Problem => absent('role', id, 'inexistent_role');
export const noStream = (id: string): Problem => absent('requested stream', id);
export const noUser = (id: string): Problem => absent('user', id, 'inexistent_user');

function absent(noun: string, id: string, errorCode?: string): Problem {
  return notFound(`The ${noun} does not exist: ${quoted(id)}`, errorCode);
}

/** Returns a found value. Throws the 404 of `problem` for `undefined`. */
export function orNotFound<T>(
  found: T | undefined,
  problem: (id: string) => Problem,
  id: string,
): T {
  if (found === undefined) throw problem(id);
  return found;
}

/** Returns the first of some ids that nothing has, for the 404 of all of them; all if each exists by now. */
export async function firstAbsent(
  ids: readonly string[],
  get: (id: string) => Promise<unknown>,
): Promise<string> {
  for (const id of ids) {
    if ((await get(id)) === undefined) return id;
  }
  return ids.join(', ');
}

/** Returns the stream of a path. Throws 404 if it does not exist. */
export async function streamOf(
  store: Pick<Store, 'streams'>,
  tenant: number,
  id: string,
): Promise<Stream> {
  return orNotFound(await store.streams.get(tenant, id), noStream, id);
}
