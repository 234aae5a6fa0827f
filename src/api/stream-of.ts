import type { Stream } from '../core/types.ts';
import type { Store } from '../store/port/store.ts';
import { notFound, type Problem } from './http/problem.ts';

/** The stream of a path. Throws 404 when there is none. */
export async function streamOf(
  store: Pick<Store, 'streams'>,
  tenant: number,
  id: string,
): Promise<Stream> {
  const found = await store.streams.get(tenant, id);
  if (found === undefined) throw noStream();
  return found;
}

/** 404 for a stream that is not there. */
export function noStream(): Problem {
  return notFound('The requested stream does not exist.');
}
