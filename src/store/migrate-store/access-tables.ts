import { boolean, bytes, integer, text, type Table, type TableColumn } from './table.ts';

/** Of keys that sign tokens, and of those that sign webhooks. */
const columnsOfKeys: readonly TableColumn[] = [
  integer('number'),
  integer('tenant'),
  text('kid'),
  bytes('private_jwk'),
  integer('created_at'),
  integer('signs_from'),
  integer('expires_at'),
];

/** The tables of keys, clients, users and what they may do. */
export const accessTables: readonly Table[] = [
  {
    name: 'signing_keys',
    keyColumns: 1,
    identity: 'number',
    columns: columnsOfKeys,
  },
  {
    name: 'webhook_keys',
    keyColumns: 1,
    identity: 'number',
    columns: columnsOfKeys,
  },
  {
    name: 'clients',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('name'),
      boolean('global'),
      text('issuer'),
      text('secret_hash'),
      text('jwks'),
      text('carried'),
      integer('version'),
      integer('credentials_version'),
      integer('created_at'),
    ],
  },
  {
    name: 'assertions',
    keyColumns: 3,
    columns: [integer('tenant'), text('client'), text('jti'), integer('expires_at')],
  },
  {
    name: 'apis',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('identifier'),
      text('name'),
      text('scopes'),
      boolean('enforce_policies'),
      text('token_dialect'),
      integer('token_lifetime_seconds'),
      text('carried'),
      integer('created_at'),
    ],
  },
  {
    name: 'grants',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('client'),
      text('api'),
      text('scope'),
      text('carried'),
    ],
  },
  {
    name: 'users',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('connection'),
      text('email'),
      text('username'),
      text('password_hash'),
      text('profile'),
      integer('created_at'),
      integer('updated_at'),
    ],
  },
  {
    name: 'roles',
    keyColumns: 2,
    columns: [
      integer('tenant'),
      text('id'),
      text('name'),
      text('description'),
      text('carried'),
      integer('created_at'),
    ],
  },
  {
    name: 'role_permissions',
    keyColumns: 4,
    columns: [integer('tenant'), text('role'), text('api'), text('name')],
  },
  {
    name: 'role_clients',
    keyColumns: 3,
    columns: [integer('tenant'), text('role'), text('client')],
  },
  {
    name: 'role_users',
    keyColumns: 3,
    columns: [integer('tenant'), text('role'), text('user')],
  },
];
