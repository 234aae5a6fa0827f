import { useLocation } from 'preact-iso';
import { useId, useState } from 'preact/hooks';
import { focusField } from '../focus.ts';

interface FindProps {
  /** What the form is for. */
  readonly purpose: string;
  readonly label: string;
  readonly placeholder: string;
  readonly maxLength?: number;
  /** Returns the page of what was typed. */
  readonly pageOf: (text: string) => string;
}

/** Opens the page of one thing by what names it. */
export function Find({ purpose, label, placeholder, maxLength, pageOf }: FindProps) {
  const { url, route } = useLocation();
  const [text, setText] = useState('');
  const id = useId();
  return (
    <form
      class="field search"
      role="search"
      aria-label={purpose}
      onSubmit={(event) => {
        event.preventDefault();
        const page = text.trim() === '' ? url : pageOf(text.trim());
        if (page === url) focusField(event.currentTarget);
        else route(page);
      }}
    >
      <label class="label" for={id}>
        {label}
      </label>
      <span class="row row-fixed">
        <input
          id={id}
          value={text}
          placeholder={placeholder}
          autocomplete="off"
          spellcheck={false}
          {...(maxLength === undefined ? {} : { maxLength })}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
        />
        <button type="submit" class="button">
          Open
        </button>
      </span>
    </form>
  );
}
