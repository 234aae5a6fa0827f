/** The nouns of the audit log: docs/audit-log.md says what each entry has and what none ever has. */
import { parseAddress } from './address.ts';
import type { Millis } from './clock.ts';

/** The types of entries, in the order of docs/audit-log.md. */
export const auditTypes = [
  'sapi',
  'fapi',
  'seccft',
  'feccft',
  'ssa',
  'fsa',
  'leat_stream_disabled',
  'leat_key_rotated',
  'leat_operator',
] as const;

export type AuditType = (typeof auditTypes)[number];

/** Something that happened to a tenant, to be recorded. No field has the value of a secret. */
export interface AuditEntry {
  readonly tenant: number;
  /** `log_` and 22 base58 characters. */
  readonly id: string;
  readonly type: AuditType;
  /** One line for people. */
  readonly description: string;
  /** The client that did it; the store adds its name. */
  readonly clientId?: string | undefined;
  readonly ip?: string | undefined;
  readonly userAgent?: string | undefined;
  readonly details: AuditDetails;
}

/** The further fields of an entry, by their names in the API. */
export interface AuditDetails {
  /** Ids of what the entry is about; the log can be filtered by them. */
  readonly targets: readonly string[];
  readonly [name: string]: string | number | boolean | readonly string[];
}

/** Makes the entry about what changes in a tenant: the ids `targets`. */
export type MakeEntry = (tenant: number, targets: readonly string[]) => AuditEntry;

/** Equal entries that are recorded as one. */
export interface AuditCount {
  readonly entry: AuditEntry;
  /** How many there were since they were recorded last. */
  readonly count: number;
  /** How long ago the first one was. */
  readonly ageMs: number;
}

/** An entry of the log. */
export interface RecordedEntry extends AuditEntry {
  /** By the clock of the store. */
  readonly at: Millis;
  /** As the client was called then. */
  readonly clientName: string | undefined;
  /** How many equal ones it stands for; 1 for most. */
  readonly count: number;
}

/** Position in the log, newest first. */
export interface AuditKey {
  readonly at: Millis;
  readonly id: string;
}

/** Returns the key as the store's `next`. */
export function formatAuditKey({ at, id }: AuditKey): string {
  return `${at}.${id}`;
}

/** Parses a text of {@link formatAuditKey}; `undefined` for any other text. */
export function parseAuditKey(text: string): AuditKey | undefined {
  const parts = /^([0-9]{1,15})\.(log_[A-Za-z0-9]{22})$/.exec(text);
  if (parts?.[1] === undefined || parts[2] === undefined) return undefined;
  return { at: Number(parts[1]), id: parts[2] };
}

/** Characters of a user agent that an entry has. */
const userAgentMax = 256;

/**
 * Matches what is as long as secrets are, and longer than words of user agents. A `/` may be part of
 * base64, and comes before the version in a user agent.
 */
const secretLike = /[A-Za-z0-9+/_=-]{32,}|[A-Za-z0-9+_=-]{24,}/g;

/** Returns a `User-Agent` as an entry has it: what may be a secret in it is replaced. */
export function shownUserAgent(sent: string | undefined): string | undefined {
  if (sent === undefined || sent === '') return undefined;
  // Not the cut text: that may end within a secret, which is too short then.
  const text = sent.slice(0, 4 * userAgentMax).replaceAll(secretLike, '***');
  return text.slice(0, userAgentMax).toWellFormed();
}

/** Returns an address as an entry has it: without a zone, which may be any text (RFC 4007). */
export function shownAddress(address: string): string | undefined {
  if (parseAddress(address) === undefined) return undefined;
  const [bare = ''] = address.split('%', 1);
  return /^::ffff:([0-9.]+)$/i.exec(bare)?.[1] ?? bare;
}
