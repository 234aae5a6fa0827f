import assert from 'node:assert/strict';
import { runLeat, type Running, storeEnvironment } from './leat.ts';
import type { Leat } from './api-client.ts';

/** A second tenant. */
export interface Tenant extends Leat {
  readonly token: string;
  /** Headers of a request to its host, with a token that has every scope. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Settings of a server that has two tenants, each with a host of its own. */
export function twoTenantsSettings(port: number): Record<string, string> {
  return {
    LEAT_PORT: String(port),
    LEAT_TENANT_DOMAIN: `127.0.0.1:${port}`,
    LEAT_TRUST_PROXY: '127.0.0.1',
  };
}

/**
 * Creates another tenant of a server with {@link twoTenantsSettings} and its own SQLite file; its host
 * is named by a proxy.
 */
export async function createTenant(
  leat: Pick<Running, 'url' | 'port'>,
  file: string,
  name = 'two',
): Promise<Tenant> {
  const env = storeEnvironment({ file });
  const { code, output } = await runLeat(['tenants', 'create', name, `${name}.test`], env);
  assert.equal(code, 0, output);
  const credential = (label: string): string =>
    new RegExp(`${label} +(?<value>\\S+)`).exec(output)?.groups?.['value'] ?? '';
  const host = {
    'content-type': 'application/json',
    'x-forwarded-host': `${name}.test`,
    'x-forwarded-proto': 'https',
  };
  const send = (method: string, path: string, body?: unknown, headers = {}): Promise<Response> =>
    fetch(leat.url + path, {
      method,
      headers: { ...host, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const response = await send('POST', '/oauth/token', {
    grant_type: 'client_credentials',
    audience: '/api/v2/',
    client_id: credential('id'),
    client_secret: credential('secret'),
  });
  const token = ((await response.json()) as { access_token?: string }).access_token ?? '';
  const authorization = `Bearer ${token}`;
  return {
    url: leat.url,
    port: leat.port,
    token,
    headers: { ...host, authorization },
    send: (method, path, body) => send(method, path, body, { authorization }),
  };
}
