import { useId, useState } from 'preact/hooks';
import { focusField } from './focus.ts';
import {
  emptyRow,
  type FilterRow,
  hasValue,
  problemOfText,
  type RowOperator,
  rowOperators,
  rowsOf,
  textOfRows,
} from './filter-rows.ts';
import './filter-editor.css';
import { Icon } from './parts/icon.tsx';
import { parseKeepingNumbers } from './request.ts';

interface FilterEditorProps {
  /** The condition as JSON text; empty for none. */
  readonly text: string;
  /** What the button says. */
  readonly label: string;
  /** Called with JSON text, or with an empty one; returns whether that is another condition. */
  readonly onApply: (text: string) => boolean;
}

/** Edits a condition over events, as rows or as JSON. */
export function FilterEditor({ text: initial, label, onApply }: FilterEditorProps) {
  const [rows, setRows] = useState(() => atLeastOne(rowsOf(initial) ?? []));
  const [isJson, setJson] = useState(() => rowsOf(initial) === undefined);
  const [text, setText] = useState(() => indented(initial));
  const problem = isJson ? problemOfText(text) : undefined;
  const rowsOfJson = isJson ? rowsOf(text) : rows;
  const showRows = (): void => {
    if (rowsOfJson === undefined) return;
    setRows(atLeastOne(rowsOfJson));
    setJson(false);
  };
  const showJson = (): void => {
    if (!isJson) setText(indented(textOfRows(rows)));
    setJson(true);
  };
  return (
    <form
      class="filter-editor stack-tight"
      aria-label="Payload"
      onSubmit={(event) => {
        event.preventDefault();
        if (problem !== undefined) return;
        if (!onApply(isJson ? compact(text) : textOfRows(rows))) focusField(event.currentTarget);
      }}
    >
      <div class="row row-spread">
        <div class="segments" role="group" aria-label="Write the condition as">
          <button
            type="button"
            aria-pressed={!isJson}
            disabled={rowsOfJson === undefined}
            title={rowsOfJson === undefined ? 'It has parts that rows cannot show' : ''}
            onClick={showRows}
          >
            Rows
          </button>
          <button type="button" aria-pressed={isJson} onClick={showJson}>
            JSON
          </button>
        </div>
        {!isJson && <span class="meta">All of them have to match</span>}
      </div>
      {isJson ? (
        <JsonField text={text} problem={problem} onInput={setText} />
      ) : (
        <Rows rows={rows} onChange={setRows} />
      )}
      <div class="row">
        <button type="submit" class="button primary" disabled={problem !== undefined}>
          {label}
        </button>
        {initial !== '' && (
          <button type="button" class="button" onClick={() => onApply('')}>
            Remove the condition
          </button>
        )}
      </div>
    </form>
  );
}

function atLeastOne(rows: readonly FilterRow[]): readonly FilterRow[] {
  return rows.length === 0 ? [emptyRow] : rows;
}

function indented(text: string): string {
  return problemOfText(text) === undefined && text !== ''
    ? JSON.stringify(parseKeepingNumbers(text), undefined, 2)
    : text;
}

function compact(text: string): string {
  return text.trim() === '' ? '' : JSON.stringify(parseKeepingNumbers(text));
}

interface JsonFieldProps {
  readonly text: string;
  readonly problem: string | undefined;
  readonly onInput: (text: string) => void;
}

function JsonField({ text, problem, onInput }: JsonFieldProps) {
  const id = useId();
  return (
    <label class="field">
      <span class="label">Condition as JSON</span>
      <textarea
        class="mono"
        rows={6}
        value={text}
        spellcheck={false}
        placeholder={'{"data.object.plan": {"$in": ["pro", "team"]}}'}
        aria-invalid={problem !== undefined}
        aria-describedby={id}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
      <span id={id} class={problem === undefined ? 'hint' : 'hint problem'}>
        {problem ??
          'Names lead into the event by dots. Operators: $eq $ne $gt $gte $lt $lte $in $nin $exists $startsWith $endsWith $contains, and $and $or $not.'}
      </span>
    </label>
  );
}

interface RowsProps {
  readonly rows: readonly FilterRow[];
  readonly onChange: (rows: readonly FilterRow[]) => void;
}

function Rows({ rows, onChange }: RowsProps) {
  return (
    <>
      <ol class="stack-tight">
        {rows.map((row, index) => (
          <Row
            // Rows have nothing else that tells them apart.
            key={index}
            row={row}
            number={index + 1}
            onChange={(changed) => onChange(rows.with(index, changed))}
            onRemove={rows.length === 1 ? undefined : () => onChange(rows.toSpliced(index, 1))}
          />
        ))}
      </ol>
      <div class="row">
        <button type="button" class="button small" onClick={() => onChange([...rows, emptyRow])}>
          Add a condition
        </button>
        <span class="meta">
          A value is a number, true, false or null where it is one; put "5" in quotes to mean a
          text.
        </span>
      </div>
    </>
  );
}

interface RowProps {
  readonly row: FilterRow;
  readonly number: number;
  readonly onChange: (row: FilterRow) => void;
  readonly onRemove: (() => void) | undefined;
}

function Row({ row, number, onChange, onRemove }: RowProps) {
  return (
    <li class="filter-row">
      <input
        class="mono"
        value={row.path}
        placeholder="data.object.email"
        aria-label={`Field ${number}`}
        autocomplete="off"
        autocapitalize="off"
        spellcheck={false}
        onInput={({ currentTarget }) => onChange({ ...row, path: currentTarget.value })}
      />
      <select
        value={row.operator}
        aria-label={`Comparison ${number}`}
        onChange={({ currentTarget }) =>
          onChange({ ...row, operator: currentTarget.value as RowOperator })
        }
      >
        {Object.entries(rowOperators).map(([operator, words]) => (
          <option key={operator} value={operator}>
            {words}
          </option>
        ))}
      </select>
      <input
        class="mono"
        value={hasValue(row.operator) ? row.value : ''}
        disabled={!hasValue(row.operator)}
        placeholder={placeholderOf(row.operator)}
        aria-label={`Value ${number}`}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => onChange({ ...row, value: currentTarget.value })}
      />
      <button
        type="button"
        class="button plain icon"
        aria-label={`Remove condition ${number}`}
        title="Remove"
        disabled={onRemove === undefined}
        onClick={onRemove}
      >
        <Icon name="close" size={14} />
      </button>
    </li>
  );
}

function placeholderOf(operator: RowOperator): string {
  if (!hasValue(operator)) return '';
  return operator === '$in' || operator === '$nin' ? 'pro, team' : 'ada@example.com';
}
