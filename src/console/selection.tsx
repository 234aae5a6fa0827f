import { useEffect, useState } from 'preact/hooks';
import type { TracedEventShown } from '../schemas/event-log.ts';
import type { StreamShown } from '../schemas/streams.ts';
import { Json } from './parts/copy.tsx';
import { Loaded } from './parts/loaded.tsx';
import { useRead } from './queries.ts';

interface SelectionProps {
  readonly streamId: string;
  readonly name: string;
  readonly event: TracedEventShown['event'];
}

/** What a stream selects now, next to an event that it did not select when that was published. */
export function Selection({ streamId, name, event }: SelectionProps) {
  const [isOpen, setOpen] = useState(false);
  const read = useRead<StreamShown>(isOpen ? `/event-streams/${streamId}` : undefined);
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        What it selects now<span class="visually-hidden">: {name}</span>
      </summary>
      {isOpen && (
        <Loaded read={read} lines={2}>
          {({ subscriptions, delivery }) => {
            const isSubscribed = subscriptions.some(({ event_type: type }) => type === event.type);
            const filter = delivery?.filter;
            return (
              <div class="stack-tight">
                <p class="meta">
                  {isSubscribed
                    ? 'It is subscribed to this type.'
                    : 'It is not subscribed to this type.'}{' '}
                  {filter === undefined ? (
                    'It has no filter.'
                  ) : (
                    <Match filter={filter} event={event} />
                  )}
                </p>
                {filter !== undefined && <Json value={filter} what={`filter of ${name}`} />}
              </div>
            );
          }}
        </Loaded>
      )}
    </details>
  );
}

/** Applies a filter to an event, as the server does. */
function Match({ filter, event }: { readonly filter: unknown; readonly event: object }) {
  const [isMatching, setMatching] = useState<boolean>();
  useEffect(() => {
    const match = async (): Promise<void> => {
      const { matcherOf } = await import('./filter-match.ts');
      const matcher = matcherOf(JSON.stringify(filter));
      setMatching('matches' in matcher ? matcher.matches(JSON.stringify(event)) : undefined);
    };
    // Without it the filter is shown all the same.
    match().catch(() => undefined);
  }, [filter, event]);
  if (isMatching === undefined) return <>Its filter:</>;
  return (
    <>{isMatching ? 'Its filter matches the event:' : 'Its filter does not match the event:'}</>
  );
}
