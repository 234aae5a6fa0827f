import type { FilterTestedShown } from '../schemas/filters.ts';
import { type FilterDraft, filterOfDraft, withRows, withText } from './filter-draft.ts';
import {
  emptyRow,
  type FilterRow,
  hasValue,
  type RowOperator,
  rowOperators,
} from './filter-rows.ts';
import type { Condition } from './filter-words.ts';
import { Allowed, useSending } from './parts/action.tsx';
import { Json } from './parts/copy.tsx';
import { Icon } from './parts/icon.tsx';
import { Problem } from './parts/loaded.tsx';
import { count, plural } from './parts/numbers.ts';
import { Panel } from './parts/page.tsx';
import { Field, focusAdding, type FormProps } from './stream-form-field.tsx';
import { useState } from 'preact/hooks';

/** Which events are sent: rows of conditions and JSON, which say the same. */
export function FilterForm({ draft, set, problems, streamId }: FormProps & { streamId: string }) {
  const { filter } = draft;
  const change = (changed: FilterDraft): void => set({ filter: changed });
  return (
    <Panel title="Filter">
      <div class="stack">
        <p class="muted">
          Only events that meet all conditions are sent; others are passed like those of other
          types. Without a condition all are sent. A change holds for events published after it.
        </p>
        {filter.rows === undefined ? (
          <p>
            {problems['delivery.filter'] === undefined
              ? 'This filter has alternatives or negations, which rows cannot show: edit its JSON.'
              : 'The rows follow when the JSON is valid.'}
          </p>
        ) : (
          <Rows rows={filter.rows} onRows={(rows) => change(withRows(rows))} />
        )}
        <Field
          label="The same as JSON"
          problem={problems['delivery.filter']}
          hint="Operators: $eq $ne $gt $gte $lt $lte $in $nin $exists $startsWith $endsWith $contains $not $and $or"
        >
          {(described) => (
            <textarea
              {...described}
              class="mono"
              rows={6}
              value={filter.text}
              spellcheck={false}
              autocomplete="off"
              placeholder={'{ "data.object.plan": { "$in": ["pro", "team"] } }'}
              onInput={({ currentTarget }) => change(withText(currentTarget.value))}
            />
          )}
        </Field>
        <Allowed scope="read:events">
          <DryRun filter={filter} streamId={streamId} />
        </Allowed>
      </div>
    </Panel>
  );
}

interface RowsProps {
  readonly rows: readonly FilterRow[];
  readonly onRows: (rows: readonly FilterRow[]) => void;
}

function Rows({ rows, onRows }: RowsProps) {
  return (
    <div class="stack-tight" data-items>
      {rows.map((row, index) => (
        <Row
          // Rows have no names of their own.
          key={index}
          row={row}
          position={index + 1}
          onRow={(changed) => onRows(rows.with(index, changed))}
          onRemove={() => onRows(rows.toSpliced(index, 1))}
        />
      ))}
      <div>
        <button type="button" class="button" data-adds onClick={() => onRows([...rows, emptyRow])}>
          Add a condition
        </button>
      </div>
    </div>
  );
}

interface RowProps {
  readonly row: FilterRow;
  readonly position: number;
  readonly onRow: (row: FilterRow) => void;
  readonly onRemove: () => void;
}

function Row({ row, position, onRow, onRemove }: RowProps) {
  const name = (what: string): string => `${what} of condition ${position}`;
  return (
    <div class="condition-row" role="group" aria-label={`Condition ${position}`}>
      <input
        aria-label={name('Field')}
        class="mono"
        value={row.path}
        placeholder="data.object.plan"
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget }) => onRow({ ...row, path: currentTarget.value })}
      />
      <select
        aria-label={name('Comparison')}
        value={row.operator}
        onChange={({ currentTarget }) =>
          onRow({ ...row, operator: currentTarget.value as RowOperator })
        }
      >
        {Object.entries(rowOperators).map(([operator, words]) => (
          <option key={operator} value={operator}>
            {words}
          </option>
        ))}
      </select>
      {hasValue(row.operator) ? (
        <input
          aria-label={name('Value')}
          class="mono"
          value={row.value}
          placeholder={/^\$n?in$/.test(row.operator) ? 'pro, team' : 'pro, 5, true or "5"'}
          spellcheck={false}
          autocomplete="off"
          onInput={({ currentTarget }) => onRow({ ...row, value: currentTarget.value })}
        />
      ) : (
        <span />
      )}
      <button
        type="button"
        class="button plain icon"
        aria-label={`Remove condition ${position}`}
        onClick={(event) => {
          focusAdding(event);
          onRemove();
        }}
      >
        <Icon name="close" size={14} />
      </button>
    </div>
  );
}

interface DryRunProps {
  readonly filter: FilterDraft;
  readonly streamId: string;
}

/** Tries the filter on the newest events of the stream's types, and changes nothing. */
function DryRun({ filter, streamId }: DryRunProps) {
  const [tested, setTested] = useState<FilterTestedShown & { readonly text: string }>();
  const { text } = filter;
  const sending = useSending<FilterTestedShown>((result) => setTested({ ...result, text }));
  const checked = filterOfDraft(filter);
  const condition: Condition | undefined = 'filter' in checked ? checked.filter : undefined;
  const request = {
    method: 'POST',
    path: `/event-streams/${streamId}/filter/test`,
    body: { filter: condition },
  } as const;
  return (
    <div class="stack-tight" role="group" aria-label="Dry run of the filter">
      <div class="row">
        <button
          type="button"
          class="button"
          disabled={condition === undefined}
          aria-disabled={sending.isSending}
          onClick={() => void sending.start({ request, command: '' })}
        >
          Try the filter
        </button>
        <span role="status">{tested?.text === text && matchedWords(tested)}</span>
      </div>
      {sending.error !== undefined && <Problem error={sending.error} />}
      {tested?.text === text && tested.sample.length > 0 && (
        <details>
          <summary>{plural(tested.sample.length, 'event')} that match</summary>
          <Json value={tested.sample} what="events that match" />
        </details>
      )}
    </div>
  );
}

function matchedWords({ read, matched }: FilterTestedShown): string {
  if (read === 0) return 'The log has no event of the saved types.';
  return `${count(matched)} of the newest ${plural(read, 'event')} of the saved types match.`;
}
