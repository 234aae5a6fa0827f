import type { EntryShown } from '../schemas/audit-log.ts';

/** The types of entries in words (docs/audit-log.md). */
const kinds: Readonly<Record<string, string>> = {
  sapi: 'Change',
  fapi: 'Refused request',
  seccft: 'Token issued',
  feccft: 'Token refused',
  ssa: 'Console session',
  fsa: 'Refused sign-in',
  leat_stream_disabled: 'Stream disabled',
  leat_key_rotated: 'Key rotated',
  leat_operator: 'Operator command',
};

/** Types that are filtered by together: first those that most searches are for. */
export const kindChoices = [
  { value: '', text: 'All entries' },
  { value: 'sapi', text: 'Changes' },
  { value: 'fapi,feccft,fsa', text: 'All refusals' },
  { value: 'fapi', text: 'Refused requests' },
  { value: 'feccft', text: 'Refused tokens' },
  { value: 'fsa', text: 'Refused sign-ins' },
  { value: 'seccft', text: 'Issued tokens' },
  { value: 'ssa', text: 'Console sessions' },
  { value: 'leat_stream_disabled', text: 'Disabled streams' },
  { value: 'leat_key_rotated', text: 'Rotated keys' },
  { value: 'leat_operator', text: 'Operator commands' },
] as const;

/** Returns the choices of types with the present one among them. */
export function choicesWith(types: string | undefined): { value: string; text: string }[] {
  const isOther = types !== undefined && !kindChoices.some(({ value }) => value === types);
  return isOther
    ? [...kindChoices, { value: types, text: types.split(',').map(kindOf).join(', ') }]
    : [...kindChoices];
}

/** Returns a type in words; one of a newer version as it is. */
export function kindOf(type: string): string {
  return kinds[type] ?? type;
}

/** Who did what an entry is about. */
export interface Doer {
  readonly name: string;
  /** What the name is of, where that is not a client. */
  readonly what?: string | undefined;
  /** The client, where the access page has it. */
  readonly clientId?: string | undefined;
}

/** Returns who did it: a user of the console, a client, the operator, or Leat. */
export function doerOf({ type, client_id: id, client_name: name, details }: EntryShown): Doer {
  const { user, role } = details as Readonly<Record<string, unknown>>;
  if (typeof user === 'string') {
    return { name: user, what: typeof role === 'string' ? `${role} in the console` : 'console' };
  }
  if (id === 'console') return { name: 'Somebody', what: 'at the sign-in of the console' };
  if (id !== undefined) return { name: name ?? id, clientId: id };
  switch (type) {
    case 'leat_stream_disabled':
      return { name: 'Leat' };
    case 'leat_operator':
    case 'leat_key_rotated':
      return { name: 'Operator', what: 'on the command line' };
    default:
      return { name: 'Unknown client' };
  }
}

/** A field of an entry in words. */
export interface Fact {
  readonly name: string;
  readonly value: string;
}

const factNames: Readonly<Record<string, string>> = {
  changed: 'Fields sent',
  scopes: 'Scopes of which it lacked one',
  audience: 'Audience',
  error: 'Error code',
  reason: 'Reason',
  command: 'Command',
  role: 'Role',
  user: 'User',
  session: 'Session',
  merged: 'Entries in one',
};

/** Shown on their own. */
const others = new Set(['targets', 'method', 'path']);

/** Returns the further details of an entry, those with a name in words first. */
export function factsOf({ details }: Pick<EntryShown, 'details'>): Fact[] {
  const known = Object.keys(factNames);
  const order = (name: string): number =>
    (known.indexOf(name) + known.length + 1) % (known.length + 1);
  return Object.entries(details)
    .filter(([name]) => !others.has(name))
    .toSorted(([one], [other]) => order(one) - order(other))
    .map(([name, value]) => ({ name: factNames[name] ?? name, value: textOf(value) }));
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.map(textOf).join(', ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}
