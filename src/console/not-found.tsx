import { links } from './links.ts';
import { Page } from './parts/page.tsx';

/** The page of an address that leads nowhere. */
export function NotFound() {
  return (
    <Page title="Nothing here">
      <p>
        This address leads to no page of the console. <a href={links.overview}>Overview</a>
      </p>
    </Page>
  );
}
