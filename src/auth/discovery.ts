import { assertionAlgorithms } from './assertion.ts';
import { authenticationMethods } from './authentication.ts';
import { tokenEndpointOf } from './issuer.ts';
import { managementScopes } from './scopes.ts';

/**
 * Returns the metadata of an issuer: RFC 8414 section 2, with the fields that OpenID Connect
 * Discovery 1.0 section 3 requires, so that one document serves both well-known paths.
 */
export function discoveryDocument(issuer: string): object {
  return {
    issuer,
    token_endpoint: tokenEndpointOf(issuer),
    jwks_uri: `${issuer}.well-known/jwks.json`,
    grant_types_supported: ['client_credentials'],
    token_endpoint_auth_methods_supported: authenticationMethods,
    token_endpoint_auth_signing_alg_values_supported: assertionAlgorithms,
    scopes_supported: managementScopes,
    // No authorization endpoint; the field must not be an empty array (RFC 8414 section 3.2).
    response_types_supported: ['none'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: ['RS256'],
  };
}
