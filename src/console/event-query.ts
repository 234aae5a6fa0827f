/** What the list of events is searched for, as the address has it. */
export interface EventQuery {
  readonly types: readonly string[];
  readonly since: Since;
  /** Times of acceptance, ISO 8601; of the window `between`. */
  readonly dateFrom: string | undefined;
  readonly dateTo: string | undefined;
  /** A condition over the envelope as JSON text. */
  readonly filter: string | undefined;
}

export type Since = 'any' | 'hour' | 'day' | 'week' | 'between';

const windowsMs = { hour: 3_600_000, day: 86_400_000, week: 7 * 86_400_000 } as const;

/** The parameters of an address. */
export interface AddressParameters {
  get(name: string): string | undefined;
}

/** Reads the query of an address; what is no value of a parameter counts as absent. */
export function eventQueryOf({ get }: AddressParameters): EventQuery {
  const [dateFrom, dateTo] = [instantOf(get('date_from')), instantOf(get('date_to'))];
  const since = get('since') ?? '';
  const isWindow = Object.hasOwn(windowsMs, since);
  const isBetween = since === 'between' || dateFrom !== undefined || dateTo !== undefined;
  return {
    types: typesOf(get('types') ?? ''),
    since: isWindow ? (since as Since) : isBetween ? 'between' : 'any',
    dateFrom: isWindow ? undefined : dateFrom,
    dateTo: isWindow ? undefined : dateTo,
    filter: get('filter'),
  };
}

/** Returns event types from a text with commas or spaces between them, each once. */
export function typesOf(text: string): readonly string[] {
  return [...new Set(text.split(/[\s,]+/).filter((type) => type !== ''))];
}

/** Returns whether a text is an event type (docs/http-api.md#event-types). */
export function isEventType(text: string): boolean {
  return text.length <= 128 && /^[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+$/.test(text);
}

/** Returns the query of `GET /event-log` at a time. */
export function requestOf(
  query: EventQuery,
  presentMs: number,
): Record<string, string | undefined> {
  const { types, since, dateFrom, dateTo, filter } = query;
  const ms = since in windowsMs ? windowsMs[since as keyof typeof windowsMs] : undefined;
  return {
    event_types: types.length === 0 ? undefined : types.join(','),
    date_from: ms === undefined ? dateFrom : new Date(presentMs - ms).toISOString(),
    date_to: dateTo,
    filter,
  };
}

/** Returns whether anything is searched for. */
export function isSearch({ types, since, filter }: EventQuery): boolean {
  return types.length > 0 || since !== 'any' || filter !== undefined;
}

/** Returns an instant as a field for local times shows it, to the second. */
export function localOf(at: string | undefined): string {
  if (at === undefined) return '';
  const date = new Date(at);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** Returns the instant of a local time as ISO 8601; undefined when there is none. */
export function instantOf(local: string | undefined): string | undefined {
  const ms = local === undefined ? Number.NaN : Date.parse(local);
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString();
}
