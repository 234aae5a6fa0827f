import type { ApiShown } from '../schemas/apis.ts';
import { FindInTab, isMissing, Missing, type Way, Ways } from './access-parts.tsx';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { nextPage, type NumberedPage, pageQuery } from './numbered-pages.ts';
import { Id } from './parts/copy.tsx';
import { Pager } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { count, duration } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';

type ApiPage = NumberedPage & { readonly resource_servers: readonly ApiShown[] };

/** All APIs (resource servers), the management API last. */
export function Apis() {
  const parameters = useParameters();
  const read = useRead<ApiPage>(
    withQuery('/resource-servers', pageQuery(parameters.get('from'), 50)),
  );
  return (
    <>
      <div class="toolbar">
        <FindInTab
          tab="apis"
          label="Id or identifier of an API"
          placeholder="https://orders.example.com"
        />
      </div>
      <Loaded read={read} lines={8}>
        {(page) => (
          <>
            <Table
              caption="APIs"
              columns={columns}
              rows={page.resource_servers}
              keyOf={({ id }) => id}
            />
            <Pager shown={page.length} total={page.total} next={nextPage(page)} noun="API" />
          </>
        )}
      </Loaded>
    </>
  );
}

/** Returns whether tokens have a claim `permissions` (docs/http-api.md#access-token-claims). */
function carriesPermissions({ enforce_policies: isOn, token_dialect: dialect }: ApiShown): boolean {
  return isOn && dialect === 'access_token_authz';
}

const columns: readonly Column<ApiShown>[] = [
  {
    title: 'Name',
    narrow: 'first',
    cell: ({ id, name, is_system: isSystem }) => (
      <span class="stacked">
        <a href={withQuery(links.access, { tab: 'apis', q: id })}>{name}</a>
        {isSystem && <span class="meta">of Leat</span>}
      </span>
    ),
  },
  {
    title: 'Identifier (audience)',
    narrow: 'line',
    cell: ({ identifier }) => <code class="cell-text">{identifier}</code>,
  },
  {
    title: 'Scopes',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ scopes }) => count(scopes.length),
  },
  {
    title: 'Tokens live',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ token_lifetime: seconds }) => duration(seconds * 1000),
  },
  {
    title: 'Permissions of roles',
    narrow: 'labelled',
    cell: (api) => (carriesPermissions(api) ? 'in its tokens' : <span class="muted">no</span>),
  },
];

interface OneProps {
  readonly id: string;
  readonly crumb: { readonly text: string; readonly href: string };
}

/** One API: its scopes, and what changes it. */
export function Api({ id, crumb }: OneProps) {
  const read = useRead<ApiShown>(`/resource-servers/${encodeURIComponent(id)}`);
  if (isMissing(read)) return <Missing title="API" id={id} crumb={crumb} />;
  return (
    <Page
      title={read.data?.name ?? 'API'}
      crumb={crumb}
      beside={read.data === undefined ? null : <Id value={read.data.id} what="id of the API" />}
    >
      <Loaded read={read} lines={8}>
        {(api) => (
          <>
            <Panel title="Facts">
              <Facts api={api} />
            </Panel>
            <Panel title={`Scopes (${count(api.scopes.length)})`} isFlush>
              <Table
                caption="Scopes of the API"
                columns={scopeColumns}
                rows={api.scopes}
                keyOf={({ value }) => value}
                isCompact
                empty="It has no scope."
              />
            </Panel>
            {!api.is_system && <Ways ways={waysOf(api)} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Facts({ api }: { readonly api: ApiShown }) {
  return (
    <dl class="facts">
      <dt>Identifier</dt>
      <dd>
        <code>{api.identifier}</code>
      </dd>
      <dt>Tokens live</dt>
      <dd>{duration(api.token_lifetime * 1000)}</dd>
      <dt>Its tokens have</dt>
      <dd>
        {carriesPermissions(api)
          ? 'the scopes asked for, and the permissions of the roles of the client'
          : 'the scopes asked for'}
        <span class="meta">
          {' '}
          (enforce_policies {String(api.enforce_policies)}, token_dialect {api.token_dialect})
        </span>
      </dd>
      {api.is_system && (
        <>
          <dt>Changes</dt>
          <dd>none: it is the management API of Leat</dd>
        </>
      )}
      <dt>See also</dt>
      <dd>
        <a href={withQuery(links.access, { tab: 'grants', audience: api.identifier })}>
          Grants for it
        </a>
        , <a href={links.logsOfTarget(api.id)}>what was done to it</a>
      </dd>
    </dl>
  );
}

const scopeColumns: readonly Column<ApiShown['scopes'][number]>[] = [
  { title: 'Scope', narrow: 'first', cell: ({ value }) => <code>{value}</code> },
  {
    title: 'What it allows',
    narrow: 'line',
    cell: ({ description = '' }) => <span class="cell-text">{description}</span>,
  },
];

function waysOf({ id, scopes, token_lifetime: seconds }: ApiShown): Way[] {
  const path = `/resource-servers/${id}`;
  const values = scopes.slice(0, 2).map(({ value }) => ({ value }));
  return [
    {
      what: 'Set its scopes: the list replaces the present one',
      request: { method: 'PATCH', path, body: { scopes: [...values, { value: 'new:scope' }] } },
    },
    {
      what: 'Set how many seconds its tokens live',
      request: { method: 'PATCH', path, body: { token_lifetime: seconds } },
    },
    {
      what: 'Delete it, its grants and its permissions of roles',
      request: { method: 'DELETE', path },
    },
  ];
}
