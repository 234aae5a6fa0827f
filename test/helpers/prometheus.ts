/** Prometheus' text format, read strictly (Text-based format, version 0.0.4). */

export interface Exposition {
  /** By name, of everything that has a TYPE line. */
  readonly families: ReadonlyMap<string, Family>;
  /** Returns the value of the sample with this name and exactly these labels; throws without one. */
  value(name: string, labels?: Readonly<Record<string, string>>): number;
  has(name: string, labels?: Readonly<Record<string, string>>): boolean;
  /** Returns every sample of that name. */
  samples(name: string): readonly Sample[];
}

export interface Family {
  readonly name: string;
  readonly type: string;
  readonly help: string;
}

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Parses an exposition; throws on anything that the format does not allow, and on duplicate samples. */
export function readExposition(text: string): Exposition {
  const helps = new Map<string, string>();
  const families = new Map<string, Family>();
  const samples: Sample[] = [];
  const seen = new Set<string>();
  if (!text.endsWith('\n')) throw new Error('the last line has no end');
  for (const line of text.split('\n')) {
    if (line === '') continue;
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === 'HELP') helps.set(name, rest);
    else if (kind === 'TYPE') families.set(name, { name, type: rest, help: helps.get(name) ?? '' });
    else {
      const sample = readSample(line);
      if (!families.has(familyName(families, sample.name))) throw new Error(`no TYPE: ${line}`);
      const key = keyOf(sample);
      if (seen.has(key)) throw new Error(`twice: ${line}`);
      seen.add(key);
      samples.push(sample);
    }
  }
  const named = (name: string): Sample[] => samples.filter((sample) => sample.name === name);
  const find = (name: string, labels: Sample['labels']): Sample | undefined => {
    const wanted = keyOf({ name, labels });
    return named(name).find((sample) => keyOf(sample) === wanted);
  };
  return {
    families,
    samples: named,
    has: (name, labels = {}) => find(name, labels) !== undefined,
    value: (name, labels = {}) => {
      const found = find(name, labels);
      if (found !== undefined) return found.value;
      const present = named(name).map(keyOf).join('\n');
      throw new Error(`no ${keyOf({ name, labels })} among:\n${present}`);
    },
  };
}

/** Returns the metric of a sample: samples of a histogram have longer names. */
export function familyName(known: { has(name: string): boolean }, sample: string): string {
  const base = sample.replace(/_(?:bucket|sum|count)$/, '');
  return known.has(sample) ? sample : base;
}

/** Prometheus reads numbers as Go's ParseFloat does, which knows `NaN` in any case. */
function readSample(line: string): Sample {
  const match =
    /^(?<name>[a-zA-Z_:][\w:]*)(?:\{(?<labels>.*)\})? (?<value>\+Inf|-Inf|N[Aa][Nn]|-?[\d.]+(?:e[+-]?\d+)?)$/s.exec(
      line,
    );
  if (match?.groups === undefined) throw new Error(`no sample: ${line}`);
  const { name = '', labels = '', value = '' } = match.groups;
  const pairs = [...labels.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/g)];
  if (pairs.map(([whole]) => whole).join('') !== labels) throw new Error(`wrong labels: ${line}`);
  return {
    name,
    labels: Object.fromEntries(pairs.map(([, label, text = '']) => [label, unescaped(text)])),
    value: Number(value.replace('Inf', 'Infinity')),
  };
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/gs, (_escape, character: string) =>
    character === 'n' ? '\n' : character,
  );
}

function keyOf({ name, labels }: Pick<Sample, 'name' | 'labels'>): string {
  const sorted = Object.entries(labels).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return `${name}${JSON.stringify(sorted)}`;
}
