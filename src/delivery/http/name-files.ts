import { isIP } from 'node:net';

/** Addresses of a hosts file by name in lower case (hosts(5)). */
export type Hosts = ReadonlyMap<string, readonly string[]>;

/** Parses a hosts file. A name on several lines has the addresses of all of them. */
export function parseHosts(text: string): Hosts {
  const hosts = new Map<string, string[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = wordsOf(line);
    if (isIP(address) === 0) continue;
    for (const each of names) {
      const name = each.toLowerCase().replace(/\.$/, '');
      const known = hosts.get(name);
      if (known === undefined) hosts.set(name, [address]);
      else if (!known.includes(address)) known.push(address);
    }
  }
  return hosts;
}

/** The search rules of resolv.conf(5); its name servers are read by the resolver library. */
export interface SearchRules {
  /** Domains without a dot at their ends. */
  readonly domains: readonly string[];
  /** A name with fewer dots is tried with the domains first. */
  readonly ndots: number;
}

/** The bounds of glibc. */
const ndotsMax = 15;
const domainsMax = 32;

/** Parses a resolv.conf. The last `search` or `domain` counts. */
export function parseSearchRules(text: string): SearchRules {
  let domains: readonly string[] = [];
  let ndots = 1;
  for (const line of text.split('\n')) {
    const [keyword, ...words] = wordsOf(line.replace(/;.*/, ''));
    if (keyword === 'search') domains = words.slice(0, domainsMax);
    if (keyword === 'domain') domains = words.slice(0, 1);
    if (keyword !== 'options') continue;
    const option = words.findLast((word) => /^ndots:[0-9]{1,4}$/.test(word));
    if (option !== undefined) ndots = Math.min(Number(option.slice('ndots:'.length)), ndotsMax);
  }
  const bare = domains.map((domain) => domain.toLowerCase().replace(/^\.|\.$/g, ''));
  return { domains: bare.filter((domain) => domain !== ''), ndots };
}

/**
 * Returns the names to query, in this order, until one exists. A name with a trailing dot is
 * absolute.
 */
export function candidatesOf(name: string, { domains, ndots }: SearchRules): readonly string[] {
  if (name.endsWith('.')) return [name.slice(0, -1)];
  const dots = name.split('.').length - 1;
  const searched = domains.map((domain) => `${name}.${domain}`);
  return dots >= ndots ? [name, ...searched] : [...searched, name];
}

function wordsOf(line: string): string[] {
  return line
    .replace(/#.*/, '')
    .split(/\s+/)
    .filter((word) => word !== '');
}
