import type { ClientShown } from '../schemas/clients.ts';
import type { GrantShown } from '../schemas/grants.ts';
import { GrantTable } from './access-grants.tsx';
import { FindInTab, isMissing, Missing, type Way, Ways } from './access-parts.tsx';
import { carriedOf, carriedText, proofOf } from './access-words.ts';
import { quoted } from './command.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { nextPage, type NumberedPage, pageQuery } from './numbered-pages.ts';
import { SameElsewhere } from './parts/action.tsx';
import { Id } from './parts/copy.tsx';
import { Choices, Pager } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { Page, Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';

type ClientPage = NumberedPage & { readonly clients: readonly ClientShown[] };

/** All clients, oldest first. */
export function Clients() {
  const parameters = useParameters();
  const query = { is_global: parameters.get('global') };
  const read = useRead<ClientPage>(
    withQuery('/clients', { ...query, ...pageQuery(parameters.get('from'), 50) }),
  );
  return (
    <>
      <div class="toolbar">
        <FindInTab tab="clients" label="Client id" placeholder="40ca3d45…" />
        <Choices name="global" label="Which clients" choices={choices} />
      </div>
      <Loaded read={read} lines={8}>
        {(page) => (
          <>
            <Table
              caption="Clients"
              columns={columns}
              rows={page.clients}
              keyOf={({ client_id: id }) => id}
              empty={
                <>
                  <p>No client matches.</p>
                  <a class="button" href={links.access}>
                    Show all clients
                  </a>
                </>
              }
            />
            <Pager shown={page.length} total={page.total} next={nextPage(page)} noun="client" />
            <SameElsewhere
              request={{ method: 'GET', path: withQuery('/clients', query) }}
              command="leat clients list"
            />
          </>
        )}
      </Loaded>
    </>
  );
}

const choices = [
  { value: '', text: 'All' },
  { value: 'true', text: 'Of the management API' },
  { value: 'false', text: 'Others' },
];

const columns: readonly Column<ClientShown>[] = [
  {
    title: 'Name',
    narrow: 'first',
    cell: ({ client_id: id, name }) => <a href={links.client(id)}>{name}</a>,
  },
  { title: 'Id', narrow: 'line', cell: ({ client_id: id }) => <Id value={id} what={`id ${id}`} /> },
  {
    title: 'Management API',
    narrow: 'labelled',
    cell: ({ global }) => (global ? 'may use it' : <span class="muted">no</span>),
  },
  {
    title: 'Proves itself by',
    narrow: 'labelled',
    cell: (client) => <span class="cell-text">{proofOf(client)}</span>,
  },
  {
    title: 'App type',
    narrow: 'hidden',
    cell: ({ app_type: type }) => carriedText(type) ?? <span class="muted">–</span>,
  },
];

interface OneProps {
  readonly id: string;
  readonly crumb: { readonly text: string; readonly href: string };
}

/** One client: what it may do, and the commands that change it. */
export function Client({ id, crumb }: OneProps) {
  const read = useRead<ClientShown>(`/clients/${encodeURIComponent(id)}`);
  if (isMissing(read)) return <Missing title="Client" id={id} crumb={crumb} />;
  return (
    <Page
      title={read.data?.name ?? 'Client'}
      crumb={crumb}
      beside={<Id value={id} what="id of the client" />}
    >
      <Loaded read={read} lines={8}>
        {(client) => (
          <>
            <Panel title="Facts">
              <Facts client={client} />
            </Panel>
            <GrantsOf id={id} />
            <Ways ways={waysOf(client)} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Facts({ client }: { readonly client: ClientShown }) {
  const { client_id: id, global, jwks } = client;
  const carried = carriedOf(client);
  return (
    <dl class="facts">
      <dt>Management API</dt>
      <dd>{global ? 'may use it, as far as its grant allows' : 'may not use it'}</dd>
      <dt>Proves itself by</dt>
      <dd>
        {proofOf(client)}
        {client.issuer === undefined && (
          <span class="meta"> (Leat stores a hash of the secret and cannot show it)</span>
        )}
      </dd>
      {jwks !== undefined && (
        <>
          <dt>Public keys</dt>
          <dd>
            <ul>
              {jwks.keys.map((key, index) => (
                <li key={index}>
                  <code>{key.kid ?? 'no kid'}</code> {key.kty === 'EC' ? `EC ${key.crv}` : key.kty}
                </li>
              ))}
            </ul>
          </dd>
        </>
      )}
      <Optional name="Description" value={carriedText(client.description)} />
      <Optional name="App type" value={carriedText(client.app_type)} />
      {carried.length > 0 && (
        <Optional name="Other fields" value={`${carried.join(', ')} (without effect in Leat)`} />
      )}
      <dt>History</dt>
      <dd>
        <a href={links.logsOfClient(id)}>What it did</a>,{' '}
        <a href={links.logsOfTarget(id)}>what was done to it</a>
      </dd>
    </dl>
  );
}

function Optional({ name, value }: { readonly name: string; readonly value: string | undefined }) {
  if (value === undefined) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

function GrantsOf({ id }: { readonly id: string }) {
  const read = useRead<{ readonly client_grants: readonly GrantShown[] }>(
    withQuery('/client-grants', { client_id: id, take: 100 }),
  );
  return (
    <Panel title="Grants" isFlush>
      <Loaded read={read}>
        {({ client_grants: grants }) => (
          <GrantTable
            grants={grants}
            empty="It has no grant: the token endpoint issues it no token."
          />
        )}
      </Loaded>
    </Panel>
  );
}

function waysOf({ client_id: id, global, issuer }: ClientShown): Way[] {
  const word = quoted(id);
  const flag = global ? '--no-global' : '--global';
  return [
    {
      what: 'Grant it more scopes',
      command: `leat clients grant ${word} --scope read:event_streams,read:events`,
    },
    {
      what: global ? 'No longer let it use the management API' : 'Let it use the management API',
      command: `leat clients update ${word} ${flag}`,
    },
    { what: 'Give it another name', command: `leat clients update ${word} --name new-name` },
    ...(issuer === undefined
      ? [
          {
            what: 'Make a new secret: the old one and all tokens end at once',
            command: `leat clients rotate-secret ${word}`,
          },
        ]
      : []),
    { what: 'Delete it: its tokens end at once', command: `leat clients delete ${word}` },
  ];
}
