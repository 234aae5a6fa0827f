/**
 * Who a tenant is to the readers of its tokens. Everything here is built from the configured
 * domain, never from a request's Host (docs/http-api.md#issuer).
 */

/** The `iss` of a tenant's tokens, with its slash; plain HTTP is for local trials only. */
export function issuerOf(domain: string, plainHttp: boolean): string {
  return `${plainHttp ? 'http' : 'https'}://${domain}/`;
}

/** The `aud` of tokens for the management API: `https://` also where the issuer is `http://`. */
export function audienceOf(domain: string): string {
  return `https://${domain}/api/v2/`;
}

/** The audiences by which a client can ask for a token of the management API (docs/http-api.md#audiences). */
export function managementAudiences(domain: string, issuer: string): readonly string[] {
  return [audienceOf(domain), '/api/v2/', `${issuer}api/v2/`];
}

/** The URL at which a tenant's tokens are asked for. */
export function tokenEndpointOf(issuer: string): string {
  return `${issuer}oauth/token`;
}
