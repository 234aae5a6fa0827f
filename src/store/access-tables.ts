import type { ConsoleRole } from '../core/console-session.ts';
import type { Api, Grant } from '../core/types.ts';
import {
  boolean,
  bytes,
  defaulted,
  integer,
  json,
  millis,
  named,
  numbered,
  omitted,
  orNull,
  sealed,
  text,
  type Table,
} from './table.ts';

/** Of keys that sign tokens, and of those that sign webhooks. */
const keys = {
  keyColumns: 1,
  sealedBy: 'kid',
  columns: {
    number: numbered(),
    tenant: integer(),
    kid: text(),
    private_jwk: sealed(),
    created_at: millis(),
    signs_from: millis(),
    expires_at: orNull(millis()),
  },
} as const;

/** The part of tables.ts about keys, clients, users and what they may do. */
export const accessTables = {
  signing_keys: keys,
  webhook_keys: keys,
  clients: {
    keyColumns: 2,
    columns: {
      tenant: integer(),
      id: text(),
      name: text(),
      global: boolean(),
      issuer: orNull(text()),
      secret_hash: orNull(text()),
      jwks: orNull(text()),
      carried: named('carriedJson', omitted(text())),
      version: integer(),
      credentials_version: defaulted(integer()),
      created_at: millis(),
    },
  },
  assertions: {
    keyColumns: 3,
    columns: { tenant: integer(), client: text(), jti: text(), expires_at: millis() },
  },
  apis: {
    keyColumns: 2,
    columns: {
      tenant: integer(),
      id: text(),
      identifier: text(),
      name: text(),
      scopes: json<Api['scopes']>(),
      enforce_policies: boolean(),
      token_dialect: text<Api['tokenDialect']>(),
      token_lifetime_seconds: integer(),
      carried: named('carriedJson', omitted(text())),
      created_at: millis(),
    },
  },
  grants: {
    keyColumns: 2,
    columns: {
      tenant: integer(),
      id: text(),
      client: text(),
      api: text(),
      scope: json<Grant['scope']>(),
      carried: named('carriedJson', omitted(text())),
    },
  },
  users: {
    keyColumns: 2,
    columns: {
      tenant: integer(),
      id: text(),
      connection: text(),
      email: text(),
      username: orNull(text()),
      password_hash: text(),
      profile: named('profileJson', text()),
      created_at: millis(),
      updated_at: millis(),
    },
  },
  roles: {
    keyColumns: 2,
    columns: {
      tenant: integer(),
      id: text(),
      name: text(),
      description: text(),
      carried: named('carriedJson', omitted(text())),
      created_at: millis(),
    },
  },
  role_permissions: {
    keyColumns: 4,
    columns: { tenant: integer(), role: text(), api: text(), name: text() },
  },
  role_clients: { keyColumns: 3, columns: { tenant: integer(), role: text(), client: text() } },
  role_users: { keyColumns: 3, columns: { tenant: integer(), role: text(), user: text() } },
  // The rows of the next two last some hours: people sign in to the console again.
  console_sessions: {
    keyColumns: 2,
    isLeftOut: true,
    columns: {
      tenant: integer(),
      secret_hash: bytes(),
      id: text(),
      role: text<ConsoleRole>(),
      user: text(),
      mapping: orNull(text()),
      created_at: millis(),
      used_at: millis(),
      ends_at: millis(),
    },
  },
  console_codes: {
    keyColumns: 2,
    isLeftOut: true,
    columns: {
      tenant: integer(),
      code_hash: bytes(),
      role: text<ConsoleRole>(),
      expires_at: millis(),
    },
  },
} as const satisfies Readonly<Record<string, Table>>;
