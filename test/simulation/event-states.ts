import type { EventState } from '../../src/core/event-state.ts';
import type { LogEvent } from '../../src/core/types.ts';
import type { Oracle } from './oracle.ts';
import type { Prng } from './prng.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Simulation } from './simulation.ts';

/** Events of each log that one check reads. */
const eventsOfCheck = 4;

/** Checks what the store says became of some retained events, between two commands. */
export async function checkEventStates(
  { oracle, sharedStore }: Pick<Simulation, 'oracle' | 'sharedStore'>,
  prng: Prng,
): Promise<void> {
  await sharedStore.exclusive(async () => {
    for (const log of oracle.present()) {
      const retained = log.model.log;
      for (let count = 0; count < eventsOfCheck && retained.length > 0; count += 1) {
        const picked = retained[prng.between(0, retained.length - 1)];
        const event = picked && log.event(picked.offset);
        if (event !== undefined) await checkEvent(oracle, sharedStore.store, log.tenant, event);
      }
    }
  });
}

async function checkEvent(
  oracle: Oracle,
  { eventLog }: Simulation['sharedStore']['store'],
  tenant: number,
  event: LogEvent,
): Promise<void> {
  const found = await eventLog.find(tenant, event.id);
  if (found?.offset !== event.offset) {
    oracle.violate('known', `${event.id} is at ${found?.offset}, not at ${event.offset}`);
    return;
  }
  const { items } = await eventLog.deliveries(tenant, found, { after: undefined, take: 1000 });
  const states = new Map(items.map(({ stream, state }) => [stream, state]));
  for (const stream of oracle.existing()) {
    if (stream.log.tenant !== tenant) continue;
    const state = states.get(stream.id);
    const expected = expectedStates(oracle, stream, event);
    if (!expected.includes(state)) {
      const what = `${event.id} at ${stream.label} is ${state}, not ${expected.join(' or ')}`;
      oracle.violate('known', what);
    }
  }
}

const statesOfRows = {
  failed: 'failed',
  retrying: 'retrying',
  parked: 'in_progress',
  blocked: 'blocked',
} as const;

/** Returns the states that an event may have at a stream; `undefined` where it need not be listed. */
function expectedStates(
  oracle: Oracle,
  stream: SimulatedStream,
  { id, offset }: LogEvent,
): (EventState | undefined)[] {
  const { counts, skipped } = stream;
  const row = counts.rows.get(id);
  if (row !== undefined) return [statesOfRows[row.state]];
  const ended = oracle.results.endedAs(stream, id);
  if (ended === 'delivered' || ended === 'dismissed') return [ended];
  // The entry of its success may have been removed.
  const known = ended === 'unknown' ? [] : (['delivered', 'dismissed'] as const);
  const isWanted = oracle.wants(stream, offset);
  // A skipped range without any wanted event is not kept.
  if (!isWanted)
    return [
      ...known,
      ...(skipped.has(offset) ? (['skipped'] as const) : []),
      'filtered',
      undefined,
    ];
  if (skipped.has(offset)) return [...known, 'skipped'];
  return [...known, offset <= counts.cursor ? 'delivered' : 'waiting'];
}
