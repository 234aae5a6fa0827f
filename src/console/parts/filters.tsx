import { useEffect, useRef, useState } from 'preact/hooks';
import { after } from '../clock.ts';
import { type Parameters, useParameters } from '../location.ts';
import { plural } from './numbers.ts';

interface SearchProps {
  /** The parameter of the address that holds the text. */
  readonly name: string;
  readonly label: string;
  readonly placeholder?: string;
}

/** A search field; the address follows what is typed, 250 ms later. */
export function Search({ name, label, placeholder }: SearchProps) {
  const parameters = useParameters();
  const present = parameters.get(name) ?? '';
  const [text, setText] = useState(present);
  const own = useRef(present);
  useEffect(() => {
    // Somebody may have typed on since the address took what was typed here.
    if (present !== own.current) setText(present);
    own.current = present;
  }, [present]);
  useEffect(() => {
    if (text.trim() === present) return undefined;
    return after(250, () => {
      own.current = text.trim();
      parameters.go({ [name]: own.current }, true);
    });
    // Other filters may be chosen meanwhile: the address has them.
  }, [text, parameters.with({})]);
  return (
    <label class="field search">
      <span class="label">{label}</span>
      <input
        type="search"
        value={text}
        spellcheck={false}
        autocomplete="off"
        {...(placeholder === undefined ? {} : { placeholder })}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
    </label>
  );
}

/** One of several values. */
export interface Choice {
  /** Empty for the choice that sets nothing. */
  readonly value: string;
  readonly text: string;
  readonly count?: number | undefined;
}

interface ChoicesProps {
  readonly name: string;
  readonly label: string;
  readonly choices: readonly Choice[];
}

/** Lets one choose a value of a parameter; each choice is a link. */
export function Choices({ name, label, choices }: ChoicesProps) {
  const parameters = useParameters();
  const present = parameters.get(name) ?? '';
  return (
    <nav class="segments" aria-label={label}>
      {choices.map(({ value, text, count }) => (
        <a
          key={value}
          href={parameters.with({ [name]: value })}
          {...(value === present ? { 'aria-current': 'true' as const } : {})}
        >
          {text}
          {count !== undefined && <span class="muted number">{count}</span>}
        </a>
      ))}
    </nav>
  );
}

/** Lets one choose a value of a parameter from a longer list. */
export function Select({ name, label, choices }: ChoicesProps) {
  const parameters = useParameters();
  return (
    <label class="field">
      <span class="label">{label}</span>
      <select
        value={parameters.get(name) ?? ''}
        onChange={({ currentTarget }) => parameters.go({ [name]: currentTarget.value })}
      >
        {choices.map(({ value, text }) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

interface PagerProps {
  /** Items on this page. */
  readonly shown: number;
  /** Items on all pages, where the server counts them. */
  readonly total?: number | undefined;
  readonly next: string | undefined;
  /** For one item. */
  readonly noun: string;
  /** For several, where it is not the noun with an s. */
  readonly many?: string;
}

/** Leads to the next page of a list, and back to the first. */
export function Pager({ shown, total, next, noun, many }: PagerProps) {
  const parameters = useParameters();
  const isFirst = parameters.get('from') === undefined;
  if (isFirst && next === undefined && total === undefined) return null;
  return (
    <nav class="pager" aria-label="Pages">
      <span class="meta">
        {isFirst && next === undefined
          ? plural(shown, noun, many)
          : `${plural(shown, noun, many)} on this page${total === undefined ? '' : `, ${total} in all`}`}
      </span>
      <span class="row">
        {!isFirst && (
          <a class="button small" href={parameters.with({})}>
            First page
          </a>
        )}
        {next !== undefined && (
          <a class="button small" rel="next" href={parameters.with({ from: next })}>
            Next page
          </a>
        )}
      </span>
    </nav>
  );
}

/** Returns the link of a header that sorts by a value of the parameter `sort`. */
export function sortBy(
  parameters: Parameters,
  value: string,
  options: { readonly isDefault?: boolean } = {},
) {
  const present = parameters.get('sort');
  const isPresent = present === value || (present === undefined && options.isDefault === true);
  return {
    href: parameters.with({ sort: options.isDefault === true ? undefined : value }),
    direction: isPresent ? directionOf(value) : undefined,
  };
}

function directionOf(value: string): 'ascending' | 'descending' {
  return value.startsWith('-') ? 'descending' : 'ascending';
}
