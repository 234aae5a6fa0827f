import type { StreamHealthShown } from '../schemas/stream-health.ts';
import type { StreamShown } from '../schemas/streams.ts';

/** What the parts of the page of a stream show. */
export interface StreamProps {
  readonly health: StreamHealthShown;
  readonly stream: StreamShown;
}
