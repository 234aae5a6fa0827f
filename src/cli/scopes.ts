import { printable } from '../core/setting.ts';
import { usageError } from './errors.ts';
import type { ApiClient } from './http/api-client.ts';
import { numberedPages } from './http/pages.ts';

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

/** Returns the candidate that differs least from a text; `undefined` when none is similar. */
function nearestOf(text: string, candidates: readonly string[]): string | undefined {
  const differencesMax = Math.min(3, Math.floor(text.length / 3));
  let nearest: { readonly candidate: string; readonly differences: number } | undefined;
  for (const candidate of candidates) {
    const differences = differencesOf(text, candidate);
    if (differences <= differencesMax && differences < (nearest?.differences ?? Infinity)) {
      nearest = { candidate, differences };
    }
  }
  return nearest?.candidate;
}

/** Returns how many characters must be inserted, removed or replaced (the Levenshtein distance). */
function differencesOf(one: string, other: string): number {
  let before = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [row, character] of Array.from(one).entries()) {
    const now = [row + 1];
    for (const [column, otherCharacter] of Array.from(other).entries()) {
      const replaced = (before[column] ?? 0) + (character === otherCharacter ? 0 : 1);
      now.push(Math.min(replaced, (before[column + 1] ?? 0) + 1, (now[column] ?? 0) + 1));
    }
    before = now;
  }
  return before.at(-1) ?? 0;
}
