import { consoleMappings } from '../core/console-mapping.ts';
import type { Setting } from '../core/setting.ts';
import { issuerUrl, type Parse, pattern } from '../core/value.ts';

/** Scopes of RFC 6749 section 3.3, with the one that makes a request one of OpenID Connect. */
const openIdScopes: Parse<readonly string[]> = (text) => {
  const scopes = [...new Set(text.split(' ').filter((scope) => scope !== ''))];
  const isValid = scopes.every((scope) => /^[\u0021\u0023-\u005B\u005D-\u007E]+$/.test(scope));
  if (!isValid) return { problem: 'has a scope with a character that no scope has' };
  if (!scopes.includes('openid')) return { problem: 'does not have the scope openid' };
  return { value: scopes };
};

/** Sign-in to the console through the operator's identity provider: docs/console.md. */
export const consoleSettings = {
  consoleOidcIssuer: {
    variable: 'LEAT_CONSOLE_OIDC_ISSUER',
    parse: issuerUrl,
    example: 'https://login.example.com/',
    doc: 'OpenID provider through which people sign in to the console',
  },
  consoleOidcClientId: {
    variable: 'LEAT_CONSOLE_OIDC_CLIENT_ID',
    parse: pattern('1 to 255 printable ASCII characters', /^[\u0021-\u007E]{1,255}$/),
    example: 'leat-console',
    doc: 'client of the console at that provider',
  },
  consoleOidcClientSecret: {
    variable: 'LEAT_CONSOLE_OIDC_CLIENT_SECRET',
    parse: pattern(
      '1 to 1024 printable ASCII characters, without blanks at its ends',
      /^(?! )[\u0020-\u007E]{1,1024}(?<! )$/,
    ),
    example: '$(cat /run/secrets/leat-console)',
    doc: 'secret of that client',
    secret: 'all',
  },
  consoleOidcScopes: {
    variable: 'LEAT_CONSOLE_OIDC_SCOPES',
    parse: openIdScopes,
    otherwise: 'openid email profile [groups]',
    example: 'openid email profile urn:zitadel:iam:org:project:roles',
    doc: 'scopes that the console asks that provider for, separated by blanks',
  },
  consoleRoles: {
    variable: 'LEAT_CONSOLE_ROLES',
    parse: consoleMappings,
    example: 'main/groups:leat-admins=operator',
    doc: 'who may sign in through that provider, <tenant>/<claim>:<value>=<role>, comma separated',
  },
} as const satisfies Record<string, Setting>;

/** Signing in through an OpenID provider. */
export const consoleLoginLimits = {
  /** From the redirect to the provider until the browser is back. */
  loginMs: 600_000,
  /** One request to the provider, to the end of its response; and the bytes of that. */
  timeoutMs: 5_000,
  bytesMax: 262_144,
  /** How long the discovery document of the provider is used. */
  discoveryMs: 600_000,
  /** People of a node whose sign-in waits for the provider; further ones get 503. */
  atOnce: 64,
} as const;
