import type { ComponentChildren } from 'preact';
import { lazy, useLocation } from 'preact-iso';
import { useErrorBoundary, useRef } from 'preact/hooks';
import { Problem } from './parts/loaded.tsx';
import { Page } from './parts/page.tsx';

/** Returns a part whose file is read when it is first shown; it says so when that fails. */
export function lazily<T>(
  load: () => Promise<T>,
  otherwise: unknown = NotLoaded,
): T & { preload(): Promise<T> } {
  return lazy(() => load().catch(() => otherwise as T));
}

const pages: (() => Promise<unknown>)[] = [];

/** Does the same for a page. */
export function lazyPage<T>(load: () => Promise<T>): T {
  const page = lazily(load, () => (
    <Page title="Not loaded">
      <NotLoaded />
    </Page>
  ));
  // Only once the file is there: a page that was not loaded stays so.
  pages.push(async () => load().then(page.preload));
  return page;
}

/** Reads the files of all pages, one after the other: who presses a link waits for the service alone. */
export async function readAhead(): Promise<void> {
  // Whoever opens the page is told.
  for (const read of pages) await read().catch(() => undefined);
}

const reload = (): void => location.reload();

function NotLoaded() {
  return (
    <div class="notice tone-warn" role="alert">
      <div class="stack-tight">
        <p>
          The files of this page could not be read: Leat may have another version since this tab was
          opened, or does not respond.
        </p>
        <div>
          <button type="button" class="button" onClick={reload}>
            Reload the page
          </button>
        </div>
      </div>
    </div>
  );
}

/** Shows its content, or that a defect of the console keeps it from being shown: the frame stays. */
export function Guarded({ children }: { readonly children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary();
  const { url } = useLocation();
  const shown = useRef(url);
  if (shown.current !== url) {
    shown.current = url;
    if (error !== undefined) reset();
  }
  if (error === undefined) return <>{children}</>;
  return (
    <Page title="Not shown">
      <Problem error={error} retry={reload} />
    </Page>
  );
}
