import { useLocation } from 'preact-iso';
import { useEffect, useRef, useState } from 'preact/hooks';
import { targetOf } from './jump-target.ts';

/** The box at the top: takes any id and opens its page; other text searches the streams. */
export function Jump() {
  const { route } = useLocation();
  const [text, setText] = useState('');
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const focus = (event: KeyboardEvent): void => {
      if (!isShortcut(event)) return;
      event.preventDefault();
      field.current?.focus();
      field.current?.select();
    };
    document.addEventListener('keydown', focus);
    return () => document.removeEventListener('keydown', focus);
  }, []);
  return (
    <form
      class="jump"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        const target = targetOf(text.trim());
        if (target === undefined) return;
        setText('');
        route(target);
        // The page that it leads to takes the focus; on the same page nothing else does.
        document.querySelector<HTMLElement>('h1')?.focus();
      }}
    >
      <input
        ref={field}
        type="search"
        value={text}
        aria-label="Go to an id, or search streams"
        placeholder="Any id, or the name of a stream"
        autocomplete="off"
        spellcheck={false}
        aria-keyshortcuts="/ Control+K"
        onInput={({ currentTarget }) => setText(currentTarget.value)}
      />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
}

function isShortcut(event: KeyboardEvent): boolean {
  if (event.key === 'k' && (event.ctrlKey || event.metaKey)) return true;
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return false;
  const { target } = event;
  const isTyping =
    target instanceof HTMLElement && /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  return !isTyping && document.querySelector('dialog[open]') === null;
}
