import type { ComponentChildren } from 'preact';
import type { RoleShown } from '../schemas/roles.ts';
import type { UserShown } from '../schemas/users.ts';
import { ForOperators, isMissing, Missing, type Way, Ways } from './access-parts.tsx';
import { quoted } from './command.ts';
import { links } from './links.ts';
import { type NumberedPage, pageQuery } from './numbered-pages.ts';
import { Allowed } from './parts/action.tsx';
import { Id, Json } from './parts/copy.tsx';
import { Loaded } from './parts/loaded.tsx';
import { count } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { Time } from './parts/time.tsx';
import { once, useRead } from './queries.ts';
import { withQuery } from './request.ts';
import { eventsOfUser } from './user-search.ts';
import { UserState } from './users.tsx';

const crumb = { text: 'Users', href: links.users };

/** The page of one user; the router has decoded the id. */
export function User({ id }: { readonly id: string }) {
  const otherwise = (
    <Page title="User" crumb={crumb}>
      <ForOperators what="users" />
    </Page>
  );
  return (
    <Allowed scope="read:users" otherwise={otherwise}>
      <Known key={id} id={id} />
    </Allowed>
  );
}

function Known({ id }: { readonly id: string }) {
  const read = useRead<UserShown>(`/users/${encodeURIComponent(id)}`);
  if (isMissing(read)) return <Missing title="User" id={id} crumb={crumb} />;
  return (
    <Page
      title={read.data?.email ?? 'User'}
      crumb={crumb}
      beside={
        <span class="row">
          {read.data !== undefined && <UserState {...read.data} />}
          <Id value={id} what="id of the user" />
        </span>
      }
    >
      <Loaded read={read} lines={12}>
        {(user) => (
          <>
            <p class="row">
              <a class="button" href={eventsOfUser(links.events, id)}>
                Events about this user
              </a>
              <a class="button" href={links.logsOfTarget(id)}>
                Audit log of this user
              </a>
            </p>
            <div class="columns">
              <Panel title="Profile">
                <Profile user={user} />
              </Panel>
              <RolesOf id={id} />
            </div>
            <Metadata user={user} />
            <Ways ways={waysOf(user)} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

const fields: readonly (readonly [
  name: string,
  valueOf: (user: UserShown) => string | undefined,
])[] = [
  ['Name', ({ name }) => name],
  ['Nickname', ({ nickname }) => nickname],
  ['Given name', ({ given_name: name }) => name],
  ['Family name', ({ family_name: name }) => name],
  ['User name', ({ username }) => username],
  ['Phone', (user) => phoneOf(user)],
  ['Connection', ({ identities }) => identities.map(({ connection }) => connection).join(', ')],
  // Its address alone: a picture of another server would tell it who looks.
  ['Picture', ({ picture }) => picture],
];

function phoneOf({ phone_number: phone, phone_verified: isVerified }: UserShown) {
  if (phone === undefined) return undefined;
  return isVerified === true ? `${phone}, verified` : phone;
}

function Profile({ user }: { readonly user: UserShown }) {
  return (
    <dl class="facts">
      {fields.map(([name, valueOf]) => {
        const value = valueOf(user);
        return value === undefined ? null : (
          <Fact key={name} name={name}>
            {value}
          </Fact>
        );
      })}
      <Fact name="Created">
        <Time at={user.created_at} />
      </Fact>
      <Fact name="Changed">
        <Time at={user.updated_at} />
      </Fact>
    </dl>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Metadata({
  user: { user_metadata: own, app_metadata: app },
}: {
  readonly user: UserShown;
}) {
  return (
    <>
      {own !== undefined && (
        <Panel title="user_metadata">
          <Json value={own} what="user_metadata" />
        </Panel>
      )}
      {app !== undefined && (
        <Panel title="app_metadata">
          <Json value={app} what="app_metadata" />
        </Panel>
      )}
    </>
  );
}

/** The API has no roles of a user: the members of this many roles are searched, this many of each. */
const rolesMax = 10;
const membersMax = 100;

function RolesOf({ id }: { readonly id: string }) {
  const read = useRead<NumberedPage & { readonly roles: readonly RoleShown[] }>(
    withQuery('/roles', pageQuery(undefined, rolesMax)),
  );
  return (
    <Panel title="Roles">
      <Loaded read={read}>
        {({ roles, total }) => (
          <div class="stack-tight">
            {roles.length === 0 && <p class="muted">There is no role.</p>}
            <ul class="stack-tight roles-of-user">
              {roles.map((role) => (
                <Membership key={role.id} role={role} userId={id} />
              ))}
            </ul>
            {total > roles.length && (
              <p class="meta">
                The first {rolesMax} of {count(total)} roles were searched:{' '}
                <a href={`${links.access}?tab=roles`}>all roles</a>.
              </p>
            )}
          </div>
        )}
      </Loaded>
    </Panel>
  );
}

/** Says whether the user holds a role, as far as its members are read. */
function Membership({ role, userId }: { readonly role: RoleShown; readonly userId: string }) {
  const { data } = useRead<
    NumberedPage & { readonly users: readonly { readonly user_id: string }[] }
  >(withQuery(`/roles/${role.id}/users`, pageQuery(undefined, membersMax)), once);
  const isMember = data?.users.some(({ user_id: member }) => member === userId) === true;
  const isOpen = data !== undefined && !isMember && data.total > data.length;
  return (
    <li class="row">
      <a class="wrap-anywhere" href={withQuery(links.access, { tab: 'roles', q: role.id })}>
        {role.name}
      </a>
      <span class={isMember ? 'strong' : 'muted'}>
        {data === undefined ? '' : isMember ? 'held' : isOpen ? notAmong(data) : 'not held'}
      </span>
    </li>
  );
}

function notAmong({ length, total }: NumberedPage): string {
  return `not held by the first ${count(length)} of ${count(total)} members`;
}

function waysOf({ user_id: id }: UserShown): Way[] {
  const word = quoted(id);
  const update = `leat users update ${word}`;
  return [
    { what: 'Change fields', command: `${update} --name 'New Name' --data '{"blocked": true}'` },
    { what: 'Set a new password', command: `${update} --password-file password.txt` },
    {
      what: 'Give the user a role',
      request: { method: 'POST', path: '/roles/rol_…/users', body: { users: [id] } },
    },
    { what: 'Delete the user', command: `leat users delete ${word}` },
  ];
}
