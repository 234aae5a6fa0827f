import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

interface PageProps {
  readonly title: string;
  /** Where the page belongs. */
  readonly crumb?: { readonly text: string; readonly href: string } | undefined;
  /** Next to the title, such as a badge. */
  readonly beside?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A page: its head, and what is below. Names the tab and takes the focus, as a loaded page does. */
export function Page({ title, crumb, beside, actions, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · Leat`;
  }, [title]);
  useEffect(() => {
    const { activeElement } = document;
    // Not from a field: a search changes the address while somebody types.
    if (!(activeElement instanceof HTMLInputElement))
      heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <>
      <div class="page-head">
        <div class="stack-tight">
          {crumb !== undefined && (
            <a class="crumb" href={crumb.href}>
              {crumb.text}
            </a>
          )}
          <div class="row">
            <h1 ref={heading} tabIndex={-1}>
              {title}
            </h1>
            {beside}
          </div>
        </div>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </div>
      {children}
    </>
  );
}

interface PanelProps {
  readonly title: string;
  /** At the right of the title. */
  readonly beside?: ComponentChildren;
  /** Whether the content reaches the edges, as a table does. */
  readonly isFlush?: boolean;
  readonly children: ComponentChildren;
}

/** A titled part of a page. */
export function Panel({ title, beside, isFlush, children }: PanelProps) {
  return (
    <section class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {beside}
      </header>
      {isFlush === true ? children : <div class="panel-body">{children}</div>}
    </section>
  );
}
