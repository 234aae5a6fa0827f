import type { GrantShown } from '../schemas/grants.ts';
import { isMissing, Missing, Scopes, type Way, Ways } from './access-parts.tsx';
import { quoted } from './command.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { pageQuery } from './numbered-pages.ts';
import { Id } from './parts/copy.tsx';
import { Pager, Search } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { Page, Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';

interface GrantPage {
  readonly client_grants: readonly GrantShown[];
  readonly next?: string;
}

/** What clients may ask for, by id; the server filters by client and by API. */
export function Grants() {
  const parameters = useParameters();
  const query = { client_id: parameters.get('client'), audience: parameters.get('audience') };
  const read = useRead<GrantPage>(
    withQuery('/client-grants', { ...query, take: 50, from: parameters.get('from') }),
  );
  const names = useNames();
  return (
    <>
      <div class="toolbar">
        <Search name="client" label="Client id" />
        <Search name="audience" label="Identifier of the API" />
      </div>
      <Loaded read={read} lines={8}>
        {({ client_grants: grants, next }) => (
          <>
            <GrantTable grants={grants} names={names} empty="No grant matches." />
            <Pager shown={grants.length} next={next} noun="grant" />
          </>
        )}
      </Loaded>
    </>
  );
}

/** Names of the first hundred clients, by id; the others are shown by their ids. */
function useNames(): ReadonlyMap<string, string> {
  const { data } = useRead<{
    readonly clients: readonly { readonly client_id: string; readonly name: string }[];
  }>(withQuery('/clients', { ...pageQuery(undefined, 100), fields: 'client_id,name' }));
  return new Map(data?.clients.map(({ client_id: id, name }) => [id, name]));
}

interface GrantTableProps {
  readonly grants: readonly GrantShown[];
  /** Names of clients by id; absent where all grants are of one. */
  readonly names?: ReadonlyMap<string, string>;
  readonly empty: string;
}

/** A table of grants. */
export function GrantTable({ grants, names, empty }: GrantTableProps) {
  return (
    <Table
      caption="Grants"
      columns={names === undefined ? columns : [clientColumn(names), ...columns]}
      rows={grants}
      keyOf={({ id }) => id}
      empty={empty}
    />
  );
}

function clientColumn(names: ReadonlyMap<string, string>): Column<GrantShown> {
  return {
    title: 'Client',
    narrow: 'first',
    cell: ({ client_id: id }) => (
      <a class="cell-text" href={links.client(id)}>
        {names.get(id) ?? id}
      </a>
    ),
  };
}

const columns: readonly Column<GrantShown>[] = [
  {
    title: 'Grant',
    narrow: 'labelled',
    cell: ({ id }) => (
      <Id value={id} what={`id ${id}`} href={withQuery(links.access, { tab: 'grants', q: id })} />
    ),
  },
  {
    title: 'API',
    narrow: 'line',
    cell: ({ audience }) => (
      <a class="cell-text" href={withQuery(links.access, { tab: 'apis', q: audience })}>
        {audience}
      </a>
    ),
  },
  { title: 'Scopes', narrow: 'line', cell: ({ scope }) => <Scopes scopes={scope} /> },
];

interface OneProps {
  readonly id: string;
  readonly crumb: { readonly text: string; readonly href: string };
}

/** One grant, and what changes it. */
export function Grant({ id, crumb }: OneProps) {
  const read = useRead<GrantShown>(`/client-grants/${encodeURIComponent(id)}`);
  if (isMissing(read)) return <Missing title="Grant" id={id} crumb={crumb} />;
  return (
    <Page title="Grant" crumb={crumb} beside={<Id value={id} what="id of the grant" />}>
      <Loaded read={read} lines={8}>
        {(grant) => (
          <>
            <Panel title="Facts">
              <dl class="facts">
                <dt>Client</dt>
                <dd>
                  <a href={links.client(grant.client_id)}>{grant.client_id}</a>
                </dd>
                <dt>API</dt>
                <dd>
                  <a href={withQuery(links.access, { tab: 'apis', q: grant.audience })}>
                    {grant.audience}
                  </a>
                </dd>
                <dt>May ask for</dt>
                <dd>
                  <Scopes scopes={grant.scope} />
                </dd>
                <dt>History</dt>
                <dd>
                  <a href={links.logsOfTarget(id)}>What was done to it</a>
                </dd>
              </dl>
            </Panel>
            <Ways ways={waysOf(grant)} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function waysOf({ id, client_id: client, audience, scope }: GrantShown): Way[] {
  const path = `/client-grants/${id}`;
  return [
    {
      what: 'Add a scope',
      command: `leat clients grant ${quoted(client)} --audience ${quoted(audience)} --scope new:scope`,
    },
    {
      what: 'Set its scopes: the list replaces the present one',
      request: { method: 'PATCH', path, body: { scope: scope.slice(0, 2) } },
    },
    { what: 'Take all of it away', request: { method: 'DELETE', path } },
  ];
}
