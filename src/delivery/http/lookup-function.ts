import type { LookupAddress } from 'node:dns';
import { isIPv6, type LookupFunction } from 'node:net';
import { ResolveFailed } from './resolver.ts';
import type { LookupOwner, NameAnswer, NameLookups } from './name-lookups.ts';

/** Returns a function like `dns.lookup` whose lookups are charged to an owner. */
export function lookupFunction(
  names: Pick<NameLookups, 'prepare' | 'usable' | 'find'>,
  owner: LookupOwner,
): LookupFunction {
  return (name, options, callback) => {
    const ended = (answer: NameAnswer): void => giveAddresses(answer, options, callback);
    const known = names.prepare(owner, name) === true ? names.usable(name) : undefined;
    // Not at once: who asks may not expect it before the call has returned.
    if (known === undefined) names.find(owner, name, { ended });
    else queueMicrotask(() => ended(known));
  };
}

/** Calls back with an answer as `dns.lookup` does: in the family that is asked for, one or all. */
export function giveAddresses(
  answer: NameAnswer,
  { family, all }: Parameters<LookupFunction>[1],
  callback: Parameters<LookupFunction>[2],
): void {
  if (answer.kind === 'failed') return callback(new ResolveFailed(answer.code), []);
  const wanted = family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : (family ?? 0);
  const found = answer.addresses
    .map((address): LookupAddress => ({ address, family: isIPv6(address) ? 6 : 4 }))
    .filter((each) => wanted === 0 || each.family === wanted);
  const [first] = found;
  if (first === undefined) callback(new ResolveFailed('ENODATA'), []);
  else if (all === true) callback(null, found);
  else callback(null, first.address, first.family);
}
