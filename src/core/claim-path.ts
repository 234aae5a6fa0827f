import { pointerNames } from './field-path.ts';

/** Names of claims in settings: docs/identity-providers.md#names-of-claims. */

/** What an issuer says in a token: its fields. */
export type Claims = Readonly<Record<string, unknown>>;

/** Names that lead to a claim: its own, or those of the objects that it is in and its own. */
export type ClaimPath = readonly string[];

/** Returns the path of a name, or of a JSON pointer (RFC 6901), which begins with a slash; `undefined` for an invalid one. */
export function claimPath(name: string): ClaimPath | undefined {
  return name.startsWith('/') ? pointerNames(name) : [name];
}

/** Returns the name that a path was parsed from, or another one for the same path. */
export function nameOfPath(path: ClaimPath): string {
  const escaped = (part: string): string => part.replaceAll('~', '~0').replaceAll('/', '~1');
  return path.length === 1 ? path.join() : `/${path.map(escaped).join('/')}`;
}

/** Returns the object that has a claim, and the name it has there; `undefined` when there is none. */
export function fieldOf(
  claims: Claims,
  path: ClaimPath,
): { readonly owner: Claims; readonly name: string } | undefined {
  let owner: unknown = claims;
  for (const [depth, name] of path.entries()) {
    if (!isObject(owner) || !Object.hasOwn(owner, name)) return undefined;
    if (depth === path.length - 1) return { owner, name };
    owner = owner[name];
  }
  return undefined;
}

/** Returns the value of a claim; `undefined` when there is none. */
export function claimAt(claims: Claims, path: ClaimPath): unknown {
  const field = fieldOf(claims, path);
  return field?.owner[field.name];
}

export function isObject(value: unknown): value is Claims {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
