import { useId } from 'preact/hooks';
import type { EventTypesShown } from '../schemas/event-types.ts';
import { Icon } from './parts/icon.tsx';
import { Panel } from './parts/page.tsx';
import { once, useRead } from './queries.ts';
import { isAllowed } from './session.ts';
import { typesOf } from './stream-draft.ts';
import { focusAdding, type FormProps, ProblemText, TextField } from './stream-form-field.tsx';

/** The name of a stream and its event types. */
export function GeneralForm({ draft, set, problems }: FormProps) {
  return (
    <Panel title="Name and events">
      <div class="stack form-narrow">
        <TextField
          label="Name"
          value={draft.name}
          problem={problems.name}
          input={{ maxLength: 128 }}
          onText={(name) => set({ name })}
        />
        <Types {...{ draft, set, problems }} />
      </div>
    </Panel>
  );
}

function Types({ draft, set, problems }: FormProps) {
  const read = useRead<EventTypesShown>(
    isAllowed('read:events') ? '/event-types?take=100' : undefined,
    once,
  );
  const list = useId();
  const add = (): void => set({ types: typesOf(draft), moreTypes: '' });
  const known = read.data?.types.filter(({ type }) => !draft.types.includes(type)) ?? [];
  return (
    <fieldset class="stack-tight" data-items>
      <legend>Event types</legend>
      {draft.types.length === 0 && <p class="muted">None: the stream sends nothing.</p>}
      <ul class="chips">
        {draft.types.map((type) => (
          <li key={type} class="chip">
            <code>{type}</code>
            <button
              type="button"
              class="button plain icon small"
              aria-label={`Remove ${type}`}
              onClick={(event) => {
                focusAdding(event);
                set({ types: draft.types.filter((other) => other !== type) });
              }}
            >
              <Icon name="close" size={12} />
            </button>
          </li>
        ))}
      </ul>
      <div class="row row-fixed">
        <input
          aria-label="Event type to add"
          data-adds
          list={list}
          value={draft.moreTypes}
          placeholder="order.paid"
          spellcheck={false}
          autocomplete="off"
          {...(problems.subscriptions === undefined ? {} : { 'aria-invalid': 'true' as const })}
          onInput={({ currentTarget }) => set({ moreTypes: currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return;
            event.preventDefault();
            add();
          }}
        />
        <button
          type="button"
          class="button"
          onClick={(event) => {
            focusAdding(event);
            add();
          }}
        >
          Add<span class="visually-hidden"> the event type</span>
        </button>
        <datalist id={list}>
          {known.map(({ type }) => (
            <option key={type} value={type} />
          ))}
        </datalist>
      </div>
      <ProblemText problem={problems.subscriptions} />
      <span class="meta">
        Several at once, separated by commas. A change holds for events published after it.
      </span>
    </fieldset>
  );
}
