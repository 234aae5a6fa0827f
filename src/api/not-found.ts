import type { Stream } from '../core/types.ts';
import type { Store } from '../store/port/store.ts';
import { notFound, type Problem } from './http/problem.ts';

/** The 404 of each noun. */
export const noApi = (): Problem =>
  notFound('The resource server does not exist.', 'inexistent_resource_server');
export const noClient = (): Problem => notFound('The client does not exist.', 'inexistent_client');
export const noDismissal = (): Problem => notFound('The dismissal does not exist.');
export const noEntry = (): Problem => notFound('The log entry does not exist.', 'inexistent_log');
export const noEvent = (): Problem => notFound('The event does not exist.');
export const noGrant = (): Problem =>
  notFound('The grant does not exist.', 'inexistent_client_grant');
export const noRedelivery = (): Problem => notFound('The redelivery does not exist.');
export const noReplay = (): Problem => notFound('The replay does not exist.');
export const noRole = (): Problem => notFound('The role does not exist.', 'inexistent_role');
export const noStream = (): Problem => notFound('The requested stream does not exist.');
export const noUser = (): Problem => notFound('The user does not exist.', 'inexistent_user');

/** Returns a found value. Throws the 404 of `problem` for `undefined`. */
export function orNotFound<T>(found: T | undefined, problem: () => Problem): T {
  if (found === undefined) throw problem();
  return found;
}

/** Returns the stream of a path. Throws 404 if it does not exist. */
export async function streamOf(
  store: Pick<Store, 'streams'>,
  tenant: number,
  id: string,
): Promise<Stream> {
  return orNotFound(await store.streams.get(tenant, id), noStream);
}
