import { Allowed } from './parts/action.tsx';
import { Received } from './received.tsx';
import type { StreamProps } from './stream-props.ts';

/** What the receiver inside Leat of a stream got. */
export function StreamReceived({ stream }: StreamProps) {
  return (
    <Allowed scope="read:events">
      <Received streamId={stream.id} />
    </Allowed>
  );
}
