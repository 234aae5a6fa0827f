import type { Hint } from '../../port/hints.ts';

/** A hint as it is sent: other processes read the events of a log themselves. */
export type Message =
  | Exclude<Hint, { kind: 'appended' | 'head' | 'replaced' }>
  | (Extract<Hint, { kind: 'head' }> & { readonly generation?: number | undefined });

/** PostgreSQL takes payloads below 8,000 bytes. */
const payloadMax = 7900;

/** Returns what the other processes are sent; `undefined` for nothing. */
export function messageOf(hint: Hint, generation: number | undefined): Message | undefined {
  // Each process detects this itself.
  if (hint.kind === 'replaced') return undefined;
  if (hint.kind === 'head') return { ...hint, generation };
  if (hint.kind !== 'appended') return hint;
  const last = hint.events.at(-1);
  return last && { kind: 'head', tenant: hint.tenant, head: last.offset, generation };
}

/** Returns whether a head is of the current store, and not of one before or after a replacement. */
export function hintOf(message: Message, present: number | undefined): Hint {
  if (message.kind !== 'head') return message;
  const { generation, ...hint } = message;
  return generation === present ? hint : { kind: 'missed' };
}

/** A later message replaces an earlier one about the same thing. */
export function topicOf(message: Message): string {
  return JSON.stringify(message.kind === 'head' ? { ...message, head: 0 } : message);
}

/** Returns the payload of a notification of the process `self`. */
export function payloadOf(self: string, messages: readonly Message[]): string {
  const payload = JSON.stringify([self, messages]);
  const fits = Buffer.byteLength(payload) <= payloadMax;
  return fits ? payload : JSON.stringify([self, [{ kind: 'missed' }]]);
}

/**
 * Returns the messages of a payload, none of one that the process `self` has sent itself. Every role of the database can send to the channel, and so can a later
 * version: what is not known is dropped.
 */
export function messagesOf(payload: string, self: string): readonly Message[] {
  const [from, messages] = arrayOf(parsed(payload));
  return from === self ? [] : arrayOf(messages).filter(isMessage);
}

function parsed(payload: string): unknown {
  try {
    return JSON.parse(payload);
  } catch {
    return undefined;
  }
}

function arrayOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === 'string';
const isNumber: Check = (value) => Number.isSafeInteger(value);
/** The ids are shown to clients. */
const isStream: Check = (value) => typeof value === 'string' && /^est_\w{1,64}$/.test(value);

/** The fields of each kind. */
const fields: { readonly [K in Message['kind']]: ChecksOf<Extract<Message, { kind: K }>> } = {
  head: { tenant: isNumber, head: isNumber },
  stream: { tenant: isNumber, stream: isStream },
  client: { tenant: isNumber, client: isText },
  keys: { tenant: isNumber },
  tenants: {},
  free: {},
  missed: {},
};

type ChecksOf<M> = { readonly [F in Exclude<keyof M, 'kind' | 'generation'>]: Check };

function isMessage(value: unknown): value is Message {
  const message = Object(value) as Readonly<Record<string, unknown>>;
  const { kind } = message;
  if (typeof kind !== 'string' || !Object.hasOwn(fields, kind)) return false;
  const checks: Readonly<Record<string, Check>> = fields[kind as Message['kind']];
  return Object.entries(checks).every(([name, check]) => check(message[name]));
}
