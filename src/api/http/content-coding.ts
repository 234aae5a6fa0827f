/** The codings in which files are kept compressed, the smallest first. */
const codings = ['br', 'gzip'] as const;

export type Coding = (typeof codings)[number];

/**
 * Returns the coding that a client prefers by its `Accept-Encoding` (RFC 9110 section 12.5.3), of equal ones
 * the smallest; `undefined` for none. A client without the header gets none.
 */
export function preferredCoding(acceptEncoding: string | undefined): Coding | undefined {
  const qualities = qualitiesOf(acceptEncoding ?? '');
  const others = qualities.get('*') ?? 0;
  // Uncompressed is acceptable also where it is not named, as the last choice.
  let best: { coding?: Coding; quality: number } = {
    quality: qualities.get('identity') ?? others,
  };
  for (const coding of codings.toReversed()) {
    const quality = qualities.get(coding) ?? others;
    if (quality > 0 && quality >= best.quality) best = { coding, quality };
  }
  return best.coding;
}

/** Returns the weights by coding, each in lower case; those that are malformed are left out. */
function qualitiesOf(header: string): ReadonlyMap<string, number> {
  const qualities = new Map<string, number>();
  for (const part of header.toLowerCase().split(',')) {
    const { coding, quality = '1' } = weighted.exec(part.trim())?.groups ?? {};
    if (coding !== undefined) qualities.set(aliases.get(coding) ?? coding, Number(quality));
  }
  return qualities;
}

/** RFC 9110 section 8.4.1.3. */
const aliases: ReadonlyMap<string, string> = new Map([['x-gzip', 'gzip']]);

/** RFC 9110 section 12.4.2. */
const weighted =
  /^(?<coding>[\w!#$%&'*+.^`|~-]+)(?:[ \t]*;[ \t]*q=(?<quality>0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/;
