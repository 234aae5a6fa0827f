/**
 * Issuer, audiences and URLs of a tenant. All are built from the configured domain, never from the
 * `Host` of a request (docs/http-api.md#issuer).
 */

/** Returns the `iss` of a tenant's tokens, with its slash; plain HTTP is for local trials only. */
export function issuerOf(domain: string, plainHttp: boolean): string {
  return `${plainHttp ? 'http' : 'https'}://${domain}/`;
}

/** Returns the `aud` of tokens for the management API: `https://` even if the issuer is `http://`. */
export function audienceOf(domain: string): string {
  return `https://${domain}/api/v2/`;
}

/** Returns the values of `audience` that request a management token (docs/http-api.md#audiences). */
export function managementAudiences(domain: string, issuer: string): readonly string[] {
  return [audienceOf(domain), '/api/v2/', `${issuer}api/v2/`];
}

/** Returns the URL of a tenant's token endpoint. */
export function tokenEndpointOf(issuer: string): string {
  return `${issuer}oauth/token`;
}
