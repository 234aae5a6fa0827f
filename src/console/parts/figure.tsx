import type { ComponentChildren } from 'preact';

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
