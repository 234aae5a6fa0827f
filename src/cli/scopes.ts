import { printable } from '../core/setting.ts';
import { usageError } from './errors.ts';
import type { ApiClient } from './http/api-client.ts';
import { numberedPages } from './http/pages.ts';
import { nearestOf } from './nearest.ts';

/** The fields of an API that are read (docs/http-api.md#apis). */
interface ApiShown {
  readonly identifier?: string;
  readonly is_system?: boolean;
  readonly scopes?: readonly { readonly value?: string }[];
}

/** What scopes are granted for. */
export interface Audience {
  readonly identifier: string;
  /** Whether it is the management API, which takes the tokens of global clients alone. */
  readonly isManagement: boolean;
}

/**
 * Returns the audience that scopes are granted for: the given one, else the identifier under which the
 * server lists its management API. Throws a usage error for a scope that the management API does not
 * have; those of other APIs need not be registered.
 */
export async function grantAudience(
  api: ApiClient,
  audience: string | undefined,
  scopes: readonly string[],
): Promise<Audience> {
  const reading = numberedPages<ApiShown>(api, '/resource-servers');
  // Only the default needs the list: a client that may not read it can name the audience.
  const servers = audience === undefined ? await reading : await reading.catch(() => []);
  const own = servers.find((each) => each.is_system === true && each.identifier !== undefined);
  const wanted = audience ?? own?.identifier;
  if (wanted === undefined) {
    throw usageError('The server does not list its management API: add --audience <audience>.');
  }
  const isManagement = own?.identifier === wanted;
  if (isManagement) refuseUnknown(scopes, own);
  return { identifier: wanted, isManagement };
}

function refuseUnknown(scopes: readonly string[], { scopes: listed = [] }: ApiShown): void {
  const known = listed.flatMap(({ value }) => value ?? []);
  const unknown = known.length === 0 ? undefined : scopes.find((scope) => !known.includes(scope));
  if (unknown === undefined) return;
  const near = nearestOf(unknown, known);
  const problem = `The management API has no scope "${printable(unknown)}"`;
  throw usageError(
    near === undefined
      ? `${problem}. Its scopes: ${known.map(printable).join(' ')}`
      : `${problem}. Did you mean ${printable(near)}?`,
  );
}
