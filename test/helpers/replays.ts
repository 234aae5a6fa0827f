import type { ReplayShown } from '../../src/schemas/replays.ts';
import { waitFor } from './leat.ts';
import { expectBody, freshType, type Leat } from './api-client.ts';

/** Replays over the management API. */

export type ReplayBody = ReplayShown;

interface StreamRef {
  readonly id: string;
}

export const pathOf = (stream: StreamRef): string => `/api/v2/event-streams/${stream.id}/replay`;

export function begin(node: Leat, stream: StreamRef, body: object): Promise<ReplayBody> {
  return expectBody(202, node.send('POST', pathOf(stream), body));
}

export function read(
  node: Leat,
  stream: StreamRef,
  { id }: Pick<ReplayBody, 'id'>,
): Promise<ReplayBody> {
  return expectBody(200, node.send('GET', `${pathOf(stream)}/${id}`));
}

/** Waits until a replay has ended, and returns it. */
export async function waitUntilOver(
  node: Leat,
  stream: StreamRef,
  replay: ReplayBody,
): Promise<ReplayBody> {
  let seen = replay;
  const isOver = async (): Promise<ReplayBody | false> => {
    seen = await read(node, stream, replay);
    return seen.status !== 'running' && seen;
  };
  return waitFor('the end of the replay', isOver, { progress: () => seen });
}

/** Returns the offset of the end of the log, as clients see it. */
export async function headOf(node: Leat): Promise<string> {
  const event = { type: freshType(), data: {} };
  const { offset } = await expectBody<{ offset: string }>(
    202,
    node.send('POST', '/api/v2/events', event),
  );
  return offset;
}
