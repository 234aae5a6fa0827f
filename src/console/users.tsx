import type { ComponentChildren } from 'preact';
import type { UserShown } from '../schemas/users.ts';
import { ForOperators, isMissing } from './access-parts.tsx';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { nextPage, type NumberedPage, pageQuery } from './numbered-pages.ts';
import { Allowed, SameElsewhere } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Id } from './parts/copy.tsx';
import { Pager, Search, Select } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { Page } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { useRead } from './queries.ts';
import { withQuery } from './request.ts';
import { userSearch } from './user-search.ts';

/** All users, or the one with an id or an e-mail. */
export function Users() {
  const search = userSearch(useParameters().get('q'));
  return (
    <Page title="Users">
      <Allowed scope="read:users" otherwise={<ForOperators what="users" />}>
        <div class="toolbar">
          <Search name="q" label="Find" placeholder="Whole e-mail, or id" />
          {search.kind === 'all' && <Select name="sort" label="Order" choices={orders} />}
        </div>
        {search.kind === 'all' && <List />}
        {search.kind === 'neither' && <Neither />}
        {(search.kind === 'id' || search.kind === 'email') && (
          <Found key={search.path} {...search} />
        )}
      </Allowed>
    </Page>
  );
}

const orders = [
  { value: '', text: 'Id' },
  { value: 'created_at:-1', text: 'Newest first' },
  { value: 'updated_at:-1', text: 'Changed last' },
  { value: 'email:1', text: 'E-mail' },
];

/** In other orders than by id the API has the first 1,000 (docs/http-api.md#list-users). */
const sortedMax = 1000;

type UserPage = Partial<NumberedPage> & {
  readonly users: readonly UserShown[];
  readonly next?: string;
};

function List() {
  const parameters = useParameters();
  const [sort, from] = [parameters.get('sort'), parameters.get('from')];
  const read = useRead<UserPage>(
    withQuery('/users', sort === undefined ? { take: 50, from } : { sort, ...pageQuery(from, 50) }),
  );
  return (
    <Loaded read={read} lines={12}>
      {({ users, next, start, limit, length, total }) => {
        const page =
          start === undefined || limit === undefined || length === undefined || total === undefined
            ? undefined
            : { start, limit, length, total };
        return (
          <>
            <UserTable users={users} empty="There is no user yet." />
            <Pager
              shown={users.length}
              total={total}
              next={page === undefined ? next : nextPage(page, sortedMax)}
              noun="user"
            />
            {(total ?? 0) > sortedMax && (
              <p class="meta">In this order the first 1 000 are shown; by id, all of them.</p>
            )}
            <SameElsewhere request={{ method: 'GET', path: '/users' }} command="leat users list" />
          </>
        );
      }}
    </Loaded>
  );
}

/** What the API finds by an id is one user, by an e-mail a list. */
function Found({ path }: { readonly path: string }) {
  const read = useRead<UserShown | readonly UserShown[]>(path);
  if (isMissing(read)) return <UserTable users={[]} empty={<Nobody />} />;
  return (
    <Loaded read={read}>
      {(found) => <UserTable users={'user_id' in found ? [found] : found} empty={<Nobody />} />}
    </Loaded>
  );
}

function Nobody() {
  return (
    <>
      <p>No user has exactly this e-mail or id.</p>
      <a class="button" href={links.users}>
        Show all users
      </a>
    </>
  );
}

function Neither() {
  return (
    <div class="table-frame empty">
      <p>
        Type a whole e-mail, such as ada@example.com, or an id, such as leat|65e1a0b2c3d4: Leat does
        not search in names.
      </p>
    </div>
  );
}

interface UserTableProps {
  readonly users: readonly UserShown[];
  readonly empty: ComponentChildren;
}

function UserTable({ users, empty }: UserTableProps) {
  return (
    <Table
      caption="Users"
      columns={columns}
      rows={users}
      keyOf={({ user_id: id }) => id}
      empty={empty}
    />
  );
}

const columns: readonly Column<UserShown>[] = [
  {
    title: 'E-mail',
    narrow: 'first',
    cell: ({ user_id: id, email, name }) => (
      <span class="stacked">
        <a class="cell-text" href={links.user(id)}>
          {email}
        </a>
        {name !== undefined && name !== email && <span class="meta wrap-anywhere">{name}</span>}
      </span>
    ),
  },
  {
    title: 'State',
    narrow: 'line',
    cell: (user) => <UserState {...user} />,
  },
  {
    title: 'Id',
    narrow: 'line',
    cell: ({ user_id: id }) => <Id value={id} what={`id ${id}`} />,
  },
  { title: 'Created', narrow: 'labelled', cell: ({ created_at: at }) => <Time at={at} /> },
  { title: 'Changed', narrow: 'hidden', cell: ({ updated_at: at }) => <Time at={at} /> },
];

/** Shows whether a user is blocked, and whether the e-mail is verified. */
export function UserState({
  blocked,
  email_verified: isVerified,
}: Pick<UserShown, 'blocked' | 'email_verified'>) {
  if (blocked === true) return <Badge state="blocked" text="blocked" />;
  return isVerified === true ? (
    <Badge state="delivered" text="e-mail verified" />
  ) : (
    <Badge state="waiting" text="e-mail not verified" />
  );
}
