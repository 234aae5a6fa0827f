import { Type, type TOptional, type TUnknown, type TSchema } from 'typebox';

/**
 * Fields of the reference's clients, APIs, client grants and roles that have no meaning in Leat. They
 * are stored and returned as sent, so that definitions of other tools are accepted, and have no effect
 * (docs/clients.md#carried-fields). `test/clients/carried-fields.test.ts` compares the lists with the npm
 * package `auth0`.
 */

const client = [
  'addons',
  'allowed_clients',
  'allowed_logout_urls',
  'allowed_origins',
  'anonymous_sessions',
  'app_type',
  'async_approval_notification_channels',
  'b2b_integration_configuration',
  'callbacks',
  'client_aliases',
  'client_authentication_methods',
  'client_metadata',
  'compliance_level',
  'cross_origin_authentication',
  'cross_origin_loc',
  'custom_login_page',
  'custom_login_page_on',
  'custom_login_page_preview',
  'default_organization',
  'description',
  'encryption_key',
  'express_configuration',
  'fedcm_login',
  'form_template',
  'grant_types',
  'identity_assertion_authorization_grant',
  'initiate_login_uri',
  'is_first_party',
  'is_token_endpoint_ip_header_trusted',
  'jwt_configuration',
  'logo_uri',
  'mobile',
  'my_organization_configuration',
  'native_social_login',
  'oidc_backchannel_logout',
  'oidc_conformant',
  'oidc_logout',
  'organization_discovery_methods',
  'organization_require_behavior',
  'organization_usage',
  'par_request_expiry',
  'redirection_policy',
  'refresh_token',
  'require_proof_of_possession',
  'require_pushed_authorization_requests',
  'session_transfer',
  'signed_request_object',
  'skip_non_verifiable_callback_uri_confirmation_prompt',
  'sso',
  'sso_disabled',
  'third_party_security_mode',
  'token_endpoint_auth_method',
  'token_exchange',
  'token_quota',
  'token_vault_privileged_access',
  'web_origins',
] as const;

const api = [
  'allow_offline_access',
  'allow_online_access',
  'allow_online_access_with_ephemeral_sessions',
  'authorization_details',
  'authorization_policy',
  'consent_policy',
  'proof_of_possession',
  'signing_alg',
  'skip_consent_for_verifiable_first_party_clients',
  'subject_type_authorization',
  'token_encryption',
  'token_lifetime_for_anonymous_access_tokens',
] as const;

const grant = [
  'allow_all_scopes',
  'allow_any_organization',
  'authorization_details_types',
  'organization_usage',
] as const;

/** The names by resource, and by operation: some fields are fixed once they were created. */
export const carriedNames = {
  client: { create: [...client, 'resource_server_identifier'], patch: client },
  api: { create: api, patch: api },
  grant: { create: [...grant, 'subject_type'], patch: grant },
  role: { create: ['type'], patch: [] },
} as const;

/** Returns the schemas of carried fields: any JSON, or `narrower` where some values are refused. */
export function carried<const Name extends string>(
  names: readonly Name[],
  narrower: Readonly<Record<string, TSchema>> = {},
): Record<Name, TOptional<TUnknown>> {
  const any = Type.Unknown({ description: 'Carried: without effect' });
  const fields = names.map((name) => [name, Type.Optional(narrower[name] ?? any)]);
  return Object.fromEntries(fields) as Record<Name, TOptional<TUnknown>>;
}

/** Returns the schema of a carried field that has few values; with others Leat would grant too much. */
export function carriedAs(description: string, ...values: string[]): TSchema {
  const literals = values.map((value) => Type.Literal(value));
  return Type.Union([...literals, Type.Null()], { description: `Carried: ${description}` });
}

/** Returns the schema of a field that the reference has and Leat refuses, for the reason described. */
export function refused(description: string): TOptional<TUnknown> {
  return Type.Optional({ ...Type.Unknown({ description }), not: {} });
}
