import { printable } from '../core/setting.ts';
import type { StreamShown } from '../schemas/streams.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { type ApiClient, pathOf } from './http/api-client.ts';
import { allPages } from './http/pages.ts';

/** Returns every event stream, oldest first. */
export function allStreams(api: ApiClient): Promise<StreamShown[]> {
  return allPages<StreamShown>(api, '/event-streams', 'eventStreams');
}

/** Returns the id of a stream, looked up by name if necessary. */
export async function streamIdOf(api: ApiClient, idOrName: string): Promise<string> {
  return isStreamId(idOrName) ? idOrName : (await streamNamed(api, idOrName)).id;
}

/** Returns a stream by id or name. Throws {@link CommandFailed} when there is none. */
export async function findStream(api: ApiClient, idOrName: string): Promise<StreamShown> {
  if (!isStreamId(idOrName)) return streamNamed(api, idOrName);
  const response = await api.send({ method: 'GET', path: pathOf`/event-streams/${idOrName}` });
  return response.body as StreamShown;
}

function isStreamId(text: string): boolean {
  return /^est_[A-Za-z0-9]{22}$/.test(text);
}

async function streamNamed(api: ApiClient, name: string): Promise<StreamShown> {
  const found = (await allStreams(api)).find((stream) => stream.name === name);
  if (found !== undefined) return found;
  throw new CommandFailed(
    exitCodes.notFound,
    `No event stream has the id or the name "${printable(name)}": leat streams list shows them.`,
  );
}
