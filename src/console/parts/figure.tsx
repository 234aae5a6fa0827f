import type { ComponentChildren } from 'preact';
import { brief, count } from './numbers.ts';

interface FigureProps {
  readonly label: string;
  readonly href?: string;
  readonly children: ComponentChildren;
}

/** Shows a figure with its label; with an address it is a link. */
export function Figure({ label, href, children }: FigureProps) {
  const content = (
    <>
      <span class="label">{label}</span>
      <span class="value">{children}</span>
    </>
  );
  return href === undefined ? (
    <div class="figure">{content}</div>
  ) : (
    <a class="figure" href={href}>
      {content}
    </a>
  );
}

/** Shows a count as a figure; in full as its title. */
export function Count({ value }: { readonly value: number }) {
  return <span title={count(value)}>{brief(value)}</span>;
}

interface FailureFiguresProps {
  readonly open: number;
  readonly retrying: number;
  /** Where the open failures are. */
  readonly href: string;
}

/** What has failed of a tenant or of a stream, and what is tried again. */
export function FailureFigures({ open, retrying, href }: FailureFiguresProps) {
  return (
    <>
      <Figure label="Open failures" href={href}>
        <span class={open > 0 ? 'bad' : ''}>
          <Count value={open} />
        </span>
      </Figure>
      <Figure label="Waiting for a retry">
        <Count value={retrying} />
      </Figure>
    </>
  );
}
