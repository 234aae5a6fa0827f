import { issuerRules } from '../core/claim-rules.ts';
import type { Setting } from '../core/setting.ts';
import {
  domain,
  issuerUrl,
  list,
  oneOf,
  pattern,
  plainText,
  tenantName,
  wholeNumber,
} from '../core/value.ts';

/** The first tenant, its management client, and the issuers whose tokens are accepted. */
export const tenantSettings = {
  tenantName: {
    variable: 'LEAT_TENANT_NAME',
    parse: tenantName,
    fallback: 'main',
    doc: 'name of the first tenant',
  },
  tenantDomain: {
    variable: 'LEAT_TENANT_DOMAIN',
    parse: domain,
    example: 'leat.example.com',
    doc: 'domain of the first tenant; by default that of LEAT_PUBLIC_URL, else localhost:<LEAT_PORT>',
  },
  unknownHost: {
    variable: 'LEAT_UNKNOWN_HOST',
    parse: oneOf('first', 'refuse'),
    fallback: 'first',
    doc: 'requests for a host that is the domain of no tenant: first serves them for the first tenant; refuse is 404 once there are several',
  },
  bootstrapClientId: {
    variable: 'LEAT_BOOTSTRAP_CLIENT_ID',
    parse: pattern('1 to 255 printable ASCII characters', /^[\u0021-\u007E]{1,255}$/),
    otherwise: 'generated',
    example: 'operator',
    doc: 'management client of the first tenant, created when it has none',
  },
  bootstrapClientSecret: {
    variable: 'LEAT_BOOTSTRAP_CLIENT_SECRET',
    parse: plainText(16, 1024),
    otherwise: 'generated',
    example: '$(openssl rand -hex 24)',
    doc: 'secret of that client, at least 16 characters',
    secret: 'all',
  },
  managementTokenSeconds: {
    variable: 'LEAT_MANAGEMENT_TOKEN_SECONDS',
    parse: wholeNumber(60, 2_592_000),
    fallback: '3600',
    doc: 'lifetime of tokens for the management API',
  },
  trustedIssuers: {
    variable: 'LEAT_TRUSTED_ISSUERS',
    parse: list(issuerUrl, 100),
    fallback: '',
    example: 'https://login.example.com/',
    doc: 'external issuers whose tokens are accepted, comma separated',
  },
  trustedIssuerClaims: {
    variable: 'LEAT_TRUSTED_ISSUER_CLAIMS',
    parse: issuerRules,
    fallback: '',
    example: 'https://acme.okta.com/oauth2/default client=cid scope=scp',
    doc: 'claims of these issuers that have other names, <issuer> <name>=<claim>, comma separated',
  },
} as const satisfies Record<string, Setting>;
