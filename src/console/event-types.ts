import { useEffect, useState } from 'preact/hooks';
import type { EventTypesShown } from '../schemas/event-types.ts';
import { queries } from './queries.ts';
import { send, withQuery } from './request.ts';

type EventTypeShown = EventTypesShown['types'][number];

/** The pages that are read at most: 1,000 types. */
const pagesMax = 10;

/** Returns the event types to suggest; none until they are read, or when the role may not read them. */
export function useEventTypes(): readonly EventTypeShown[] {
  const [types, setTypes] = useState<readonly EventTypeShown[]>([]);
  useEffect(() => {
    queries
      .fetchQuery({ queryKey: ['event types'], queryFn: readTypes, staleTime: 60_000 })
      // Suggestions are no reason to show an error: types can be typed.
      .then(setTypes, () => undefined);
  }, []);
  return types;
}

async function readTypes({ signal }: { readonly signal: AbortSignal }): Promise<EventTypeShown[]> {
  const all: EventTypeShown[] = [];
  let from: string | undefined;
  for (let page = 0; page < pagesMax; page += 1) {
    const path = withQuery('/event-types', { take: 100, from });
    const { types, next } = await send<EventTypesShown>({ method: 'GET', path }, { signal });
    all.push(...types);
    if (next === undefined) return all;
    from = next;
  }
  return all;
}
