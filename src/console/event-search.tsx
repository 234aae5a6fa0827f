import { useId, useState } from 'preact/hooks';
import { eventQueryOf, isEventType, typesOf } from './event-query.ts';
import { useEventTypes } from './event-types.ts';
import { FilterEditor } from './filter-editor.tsx';
import { focusField } from './focus.ts';
import { links } from './links.ts';
import { type Parameters, useParameters } from './location.ts';
import { Find } from './parts/find.tsx';
import { Icon } from './parts/icon.tsx';
import { PeriodChoices, PeriodFields } from './period.tsx';

/** What events are searched for; the address has it. A live list has no window of time. */
export function EventSearch({ isLive }: { readonly isLive: boolean }) {
  const parameters = useParameters();
  const query = eventQueryOf(parameters);
  const { filter = '' } = query;
  const [isOpen, setOpen] = useState(filter !== '');
  const id = useId();
  return (
    <div class="stack-tight event-search">
      <div class="toolbar">
        <Find
          purpose="Find an event"
          label="Id or idempotency key"
          placeholder="evt_… or order-42-paid"
          maxLength={255}
          pageOf={links.event}
        />
        <TypesField parameters={parameters} types={query.types} />
        {!isLive && <PeriodChoices label="Accepted" since={query.since} />}
        <button
          type="button"
          class="button"
          aria-expanded={isOpen}
          aria-controls={id}
          onClick={() => setOpen(!isOpen)}
        >
          Payload {filter !== '' && <span class="meta">(set)</span>}
        </button>
      </div>
      <Types parameters={parameters} types={query.types} />
      {!isLive && query.since === 'between' && (
        <PeriodFields label="Accepted" button="Search this time" period={query} />
      )}
      <div id={id} class="panel-body panel" hidden={!isOpen}>
        <FilterEditor
          key={filter}
          text={filter}
          label={isLive ? 'Follow what matches' : 'Search payloads'}
          onApply={(text) => parameters.go({ filter: text })}
        />
      </div>
    </div>
  );
}

interface TypesProps {
  readonly parameters: Parameters;
  readonly types: readonly string[];
}

/** Adds types to the search: typed, or chosen from those of the log. */
function TypesField({ parameters, types }: TypesProps) {
  const suggestions = useEventTypes();
  const [text, setText] = useState('');
  const id = useId();
  const add = (typed: string): boolean => {
    setText('');
    return parameters.go({ types: typesOf([...types, typed].join(',')).join(',') });
  };
  const isInvalid = !typesOf(text).every(isEventType);
  return (
    <form
      class="field search"
      onSubmit={(event) => {
        event.preventDefault();
        if (!add(text)) focusField(event.currentTarget);
      }}
    >
      <label class="label" for={`${id}-field`}>
        Event types
      </label>
      <span class="row row-fixed">
        <input
          id={`${id}-field`}
          list={`${id}-types`}
          value={text}
          placeholder={types.length === 0 ? 'All types' : 'One more type'}
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          aria-invalid={isInvalid}
          ref={(field) => field?.setCustomValidity(isInvalid ? typeWords : '')}
          onInput={(event) => {
            const { value } = event.currentTarget;
            setText(value);
            if (isChosen(event) && typesOf(value).every(isEventType)) add(value);
          }}
        />
        <button type="submit" class="button">
          Add
        </button>
      </span>
      <datalist id={`${id}-types`}>
        {suggestions.map(({ type }) => (
          <option key={type} value={type} />
        ))}
      </datalist>
    </form>
  );
}

const typeWords = 'Two or more segments of a-z, 0-9 and _, joined by dots';

/** Returns whether a suggestion was chosen, which replaces the text; typed types end with Enter. */
function isChosen(event: Event): boolean {
  return !('inputType' in event) || event.inputType === 'insertReplacementText';
}

/** The chosen types, each with a button that removes it. */
function Types({ parameters, types }: TypesProps) {
  if (types.length === 0) return null;
  return (
    <ul class="row" aria-label="Chosen event types">
      {types.map((type) => (
        <li key={type}>
          <button
            type="button"
            class="button small chip"
            title="Remove"
            onClick={() => parameters.go({ types: types.filter((one) => one !== type).join(',') })}
          >
            <code>{type}</code>
            <span class="visually-hidden">, remove</span>
            <Icon name="close" size={12} />
          </button>
        </li>
      ))}
    </ul>
  );
}
