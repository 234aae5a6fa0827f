import type { PermissionSent, RoleShown } from '../schemas/roles.ts';
import { isMissing, Missing, type Way, Ways } from './access-parts.tsx';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { nextPage, type NumberedPage, pageQuery } from './numbered-pages.ts';
import { Id } from './parts/copy.tsx';
import { Pager, Search } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { count } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { once, useRead } from './queries.ts';
import { withQuery } from './request.ts';

type RolePage = NumberedPage & { readonly roles: readonly RoleShown[] };

/** Few, as the counts of each role take three requests. */
const rolesOfPage = 10;

/** All roles, oldest first; the server searches their names. */
export function Roles() {
  const parameters = useParameters();
  const name = parameters.get('name');
  const read = useRead<RolePage>(
    withQuery('/roles', {
      name_filter: name,
      ...pageQuery(parameters.get('from'), rolesOfPage),
    }),
  );
  return (
    <>
      <div class="toolbar">
        <Search name="name" label="Search" placeholder="Part of a name" />
      </div>
      <Loaded read={read} lines={8}>
        {(page) => (
          <>
            <Table
              caption="Roles"
              columns={columns}
              rows={page.roles}
              keyOf={({ id }) => id}
              empty={name === undefined ? 'There is no role.' : 'No role has this in its name.'}
            />
            <Pager shown={page.length} total={page.total} next={nextPage(page)} noun="role" />
          </>
        )}
      </Loaded>
    </>
  );
}

const columns: readonly Column<RoleShown>[] = [
  {
    title: 'Name',
    narrow: 'first',
    cell: ({ id, name, description }) => (
      <span class="stacked">
        <a href={withQuery(links.access, { tab: 'roles', q: id })}>{name}</a>
        <span class="meta">{description}</span>
      </span>
    ),
  },
  { title: 'Id', narrow: 'line', cell: ({ id }) => <Id value={id} what={`id ${id}`} /> },
  ...(['permissions', 'users', 'clients'] as const).map((what) => ({
    title: what.replace(/^./, (letter) => letter.toUpperCase()),
    isNumber: true,
    narrow: 'labelled' as const,
    cell: ({ id }: RoleShown) => <Count id={id} what={what} />,
  })),
];

interface CountProps {
  readonly id: string;
  readonly what: 'permissions' | 'users' | 'clients';
}

/** How many of something a role has; empty until that is known. */
function Count({ id, what }: CountProps) {
  const { data } = useRead<NumberedPage>(
    withQuery(`/roles/${id}/${what}`, { per_page: 0, include_totals: 'true' }),
    // There are three for each row.
    once,
  );
  return <>{data === undefined ? '' : count(data.total)}</>;
}

interface OneProps {
  readonly id: string;
  readonly crumb: { readonly text: string; readonly href: string };
}

/** One role: its permissions, who holds it, and what changes it. */
export function Role({ id, crumb }: OneProps) {
  const read = useRead<RoleShown>(`/roles/${encodeURIComponent(id)}`);
  if (isMissing(read)) return <Missing title="Role" id={id} crumb={crumb} />;
  return (
    <Page
      title={read.data?.name ?? 'Role'}
      crumb={crumb}
      beside={<Id value={id} what="id of the role" />}
    >
      <Loaded read={read} lines={8}>
        {(role) => (
          <>
            <p>
              {role.description === '' ? '' : `${role.description}. `}
              <a href={links.logsOfTarget(id)}>What was done to it</a>
            </p>
            <Permissions id={id} />
            <div class="columns">
              <Users id={id} />
              <Clients id={id} />
            </div>
            <Ways ways={waysOf(role)} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const itemsMax = 100;

function Permissions({ id }: { readonly id: string }) {
  const read = useRead<NumberedPage & { readonly permissions: readonly PermissionSent[] }>(
    withQuery(`/roles/${id}/permissions`, pageQuery(undefined, itemsMax)),
  );
  return (
    <Panel title="Permissions" beside={<Total read={read.data} />} isFlush>
      <Loaded read={read}>
        {({ permissions }) => (
          <Table
            caption="Permissions of the role"
            columns={permissionColumns}
            rows={permissions}
            keyOf={(one) => `${one.resource_server_identifier} ${one.permission_name}`}
            isCompact
            empty="It has no permission."
          />
        )}
      </Loaded>
    </Panel>
  );
}

const permissionColumns: readonly Column<PermissionSent>[] = [
  {
    title: 'Scope',
    narrow: 'first',
    cell: ({ permission_name: name }) => <code>{name}</code>,
  },
  {
    title: 'API',
    narrow: 'line',
    cell: ({ resource_server_identifier: audience }) => (
      <a class="cell-text" href={withQuery(links.access, { tab: 'apis', q: audience })}>
        {audience}
      </a>
    ),
  },
];

/** How many there are, and whether all of them are shown. */
function Total({ read }: { readonly read: NumberedPage | undefined }) {
  if (read === undefined) return null;
  return (
    <span class="meta">
      {read.length < read.total
        ? `the first ${count(read.length)} of ${count(read.total)}`
        : count(read.total)}
    </span>
  );
}

function Users({ id }: { readonly id: string }) {
  const read = useRead<NumberedPage & { readonly users: readonly { readonly user_id: string }[] }>(
    withQuery(`/roles/${id}/users`, pageQuery(undefined, itemsMax)),
  );
  return (
    <Panel title="Users" beside={<Total read={read.data} />}>
      <Loaded read={read}>
        {({ users }) => (
          <Members
            ids={users.map(({ user_id: user }) => user)}
            hrefOf={links.user}
            none="No user has this role."
          />
        )}
      </Loaded>
    </Panel>
  );
}

function Clients({ id }: { readonly id: string }) {
  const read = useRead<NumberedPage & { readonly clients: readonly string[] }>(
    withQuery(`/roles/${id}/clients`, pageQuery(undefined, itemsMax)),
  );
  return (
    <Panel title="Clients" beside={<Total read={read.data} />}>
      <Loaded read={read}>
        {({ clients }) => (
          <Members ids={clients} hrefOf={links.client} none="No client has this role." />
        )}
      </Loaded>
    </Panel>
  );
}

interface MembersProps {
  readonly ids: readonly string[];
  readonly hrefOf: (id: string) => string;
  readonly none: string;
}

function Members({ ids, hrefOf, none }: MembersProps) {
  if (ids.length === 0) return <p class="muted">{none}</p>;
  return (
    <ul class="stack-tight">
      {ids.map((id) => (
        <li key={id}>
          <a class="wrap-anywhere" href={hrefOf(id)}>
            {id}
          </a>
        </li>
      ))}
    </ul>
  );
}

function waysOf({ id }: RoleShown): Way[] {
  const path = `/roles/${id}`;
  const permission = {
    resource_server_identifier: 'https://orders.example.com',
    permission_name: 'read:orders',
  };
  return [
    {
      what: 'Add permissions (DELETE takes them away)',
      request: { method: 'POST', path: `${path}/permissions`, body: { permissions: [permission] } },
    },
    {
      what: 'Give it to users (DELETE takes it away)',
      request: { method: 'POST', path: `${path}/users`, body: { users: ['leat|65e1a0b2c3d4'] } },
    },
    {
      what: 'Give it to clients (DELETE takes it away)',
      request: { method: 'POST', path: `${path}/clients`, body: { clients: ['40ca3d45530505b2'] } },
    },
    { what: 'Delete it', request: { method: 'DELETE', path } },
  ];
}
