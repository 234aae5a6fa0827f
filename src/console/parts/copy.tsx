import { useState } from 'preact/hooks';
import { after } from '../clock.ts';
import { Icon } from './icon.tsx';
import { say } from './notice.tsx';
import { jsonText } from './plain-text.ts';

/** Copies a text to the clipboard. */
function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    if (!(await copyText(text))) return;
    setCopied(true);
    after(2000, () => setCopied(false));
  };
  return (
    <button
      type="button"
      class="button plain icon small"
      aria-label={isCopied ? 'Copied' : `Copy ${what}`}
      title={isCopied ? 'Copied' : `Copy ${what}`}
      onClick={() => void copy()}
    >
      <Icon name={isCopied ? 'check' : 'copy'} size={14} />
    </button>
  );
}

/** Copies a text to the clipboard; says why where that is not possible. */
export async function copyText(text: string): Promise<boolean> {
  try {
    // Browsers have a clipboard on https and localhost only.
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    say('This browser does not let the page copy: select the text instead.', 'bad');
    return false;
  }
}

/** Shows an id, cut in the middle, with a button that copies all of it. */
export function Id({ value, what = 'id', href }: IdProps) {
  const short = value.length > 17 ? `${value.slice(0, 9)}…${value.slice(-5)}` : value;
  const text = (
    <code title={value} class="nowrap">
      {short}
    </code>
  );
  return (
    <span class="copyable">
      {href === undefined ? text : <a href={href}>{text}</a>}
      <CopyButton text={value} what={what} />
    </span>
  );
}

interface IdProps {
  readonly value: string;
  /** What it is the id of, for the name of the button. */
  readonly what?: string;
  readonly href?: string | undefined;
}

/** Shows a text as it is, never as HTML, with a button that copies it. */
export function Code({ text, what }: { readonly text: string; readonly what: string }) {
  return (
    <div class="code-frame">
      <pre class="code" tabIndex={0} aria-label={what} role="region">
        {text}
      </pre>
      <CopyButton text={text} what={what} />
    </div>
  );
}

/** Shows a value as JSON; invisible characters in it are written out. */
export function Json({ value, what }: { readonly value: unknown; readonly what: string }) {
  return <Code text={jsonText(value)} what={what} />;
}
