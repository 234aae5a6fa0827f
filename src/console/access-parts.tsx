import type { AccessTab } from './access-words.ts';
import { curlOf } from './command.ts';
import { links } from './links.ts';
import { Code } from './parts/copy.tsx';
import { Find } from './parts/find.tsx';
import { Notice } from './parts/notice.tsx';
import { plural } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import type { Read } from './queries.ts';
import { type ApiRequest, RequestFailed, withQuery } from './request.ts';

/** Says that a page is for operators. */
export function ForOperators({ what }: { readonly what: string }) {
  return (
    <Notice tone="info">
      <p>Your role may not read {what}. The role operator may.</p>
    </Notice>
  );
}

/** A change that is made elsewhere: by a command, or where none does it by a request. */
export type Way = { readonly what: string } & (
  | { readonly command: string }
  | { readonly request: ApiRequest }
);

/** Shows how something is changed that the page only shows. */
export function Ways({ ways }: { readonly ways: readonly Way[] }) {
  return (
    <Panel title="Change it on the command line">
      <ul class="stack">
        {ways.map((way) => (
          <li key={way.what} class="stack-tight">
            <h3>{way.what}</h3>
            <Code
              text={'command' in way ? way.command : curlOf(way.request, location.origin)}
              what={`command: ${way.what}`}
            />
          </li>
        ))}
      </ul>
    </Panel>
  );
}

interface FindInTabProps {
  readonly tab: AccessTab;
  readonly label: string;
  readonly placeholder: string;
}

/** Opens the one with an id. */
export function FindInTab({ tab, ...field }: FindInTabProps) {
  return (
    <Find {...field} purpose={field.label} pageOf={(q) => withQuery(links.access, { tab, q })} />
  );
}

const scopesShown = 4;

/** Lists scopes, the rest of many behind a switch. */
export function Scopes({ scopes }: { readonly scopes: readonly string[] }) {
  if (scopes.length === 0) return <span class="muted">no scope</span>;
  if (scopes.length <= scopesShown) return <ScopeList scopes={scopes} />;
  return (
    <details>
      <summary>{plural(scopes.length, 'scope')}</summary>
      <ScopeList scopes={scopes} />
    </details>
  );
}

function ScopeList({ scopes }: { readonly scopes: readonly string[] }) {
  return (
    <ul class="scopes">
      {scopes.map((scope) => (
        <li key={scope}>
          <code>{scope}</code>
        </li>
      ))}
    </ul>
  );
}

/** Returns whether there is no such thing. */
export function isMissing({ data, error }: Read<unknown>): boolean {
  return data === undefined && error instanceof RequestFailed && error.status === 404;
}

interface MissingProps {
  readonly title: string;
  readonly id: string;
  readonly crumb: { readonly text: string; readonly href: string };
}

/** The page of a thing that does not exist: it may have been deleted. */
export function Missing({ title, id, crumb }: MissingProps) {
  return (
    <Page title={title} crumb={crumb}>
      <p>
        There is nothing with the id <code class="wrap-anywhere">{id}</code>. It was deleted, or it
        is of another tenant.
      </p>
      <p>
        <a href={links.logsOfTarget(id)}>What the audit log has about it</a>
      </p>
    </Page>
  );
}
