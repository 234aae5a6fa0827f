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
