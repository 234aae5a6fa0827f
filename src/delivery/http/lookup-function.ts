import type { LookupAddress } from 'node:dns';
import { isIPv6, type LookupFunction } from 'node:net';
import { ResolveFailed } from './resolver.ts';
import type { LookupOwner, NameResult, NameLookups } from './name-lookups.ts';

/** Returns a function like `dns.lookup` whose lookups are charged to an owner. */
export function lookupFunction(
  names: Pick<NameLookups, 'prepare' | 'usable' | 'find'>,
  owner: LookupOwner,
): LookupFunction {
  return (name, options, callback) => {
    const ended = (result: NameResult): void => giveAddresses(result, options, callback);
    const known = names.prepare(owner, name) === true ? names.usable(name) : undefined;
    // Asynchronous: the caller may not expect the callback before the call has returned.
    if (known === undefined) names.find(owner, name, { ended });
    else queueMicrotask(() => ended(known));
  };
}

/** Calls back as `dns.lookup` does: with one or all addresses of the requested family. */
export function giveAddresses(
  result: NameResult,
  { family, all }: Parameters<LookupFunction>[1],
  callback: Parameters<LookupFunction>[2],
): void {
  if (result.kind === 'failed') return callback(new ResolveFailed(result.code), []);
  const requested = family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : (family ?? 0);
  const found = result.addresses
    .map((address): LookupAddress => ({ address, family: isIPv6(address) ? 6 : 4 }))
    .filter((each) => requested === 0 || each.family === requested);
  const [first] = found;
  if (first === undefined) callback(new ResolveFailed('ENODATA'), []);
  else if (all === true) callback(null, found);
  else callback(null, first.address, first.family);
}
