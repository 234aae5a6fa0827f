import type { AuditEntry, AuditType } from '../core/audit-log.ts';
import { keyedId } from '../core/ids.ts';
import { addressKey, networkKey } from '../core/rate.ts';

/** Something that changed nothing in the store. */
export interface Happened extends Omit<AuditEntry, 'id' | 'type'> {
  readonly type: Extract<AuditType, 'fapi' | 'fsa' | 'seccft' | 'feccft'>;
  /** What makes it equal to others of its type, client and address. */
  readonly what: string;
  /** What shares a bound, where that is neither its client nor its network. */
  readonly source?: string | undefined;
  /** The address as it arrived. */
  readonly address: string;
}

/** Bounds of docs/audit-log.md#bounds. */
export interface AuditBounds {
  /** Equal ones within a minute that have an entry each. */
  readonly singlyMax: Readonly<Record<Happened['type'], number>>;
  /** New entries of a tenant in a minute. */
  readonly entriesMax: Readonly<Record<Happened['type'], number>>;
  /** Those of one client, or of one network where the client is not authenticated: it hides no others. */
  readonly sourceMax: Readonly<Record<Happened['type'], number>>;
  /** Kinds that are told apart in a minute, of all tenants. */
  readonly kindsMax: number;
}

/**
 * How something is recorded: in an entry of its own, added to the entry with this id, or added to the
 * entry of everything beyond the bounds.
 */
export type Recording =
  | { readonly as: 'own' }
  | { readonly as: 'equal'; readonly id: string }
  | { readonly as: 'further'; readonly id: string };

/** Counts what happens within a minute of the clock. */
export interface AuditMinute {
  /** @param mayAdd returns whether a further entry can be held; called only if the bounds let one be added */
  decide(happened: Happened, minute: number, mayAdd: () => boolean): Recording;
}

export function createAuditMinute(bounds: AuditBounds): AuditMinute {
  const { singlyMax, entriesMax, sourceMax, kindsMax } = bounds;
  let current = 0;
  /** By the ids that equal ones have in this minute: on every node the same. */
  const counts = new Map<string, number>();
  const entries = new Map<string, number>();
  return {
    decide: (happened, minute, mayAdd) => {
      const { tenant, type, clientId = '', what, address } = happened;
      if (minute !== current) {
        current = minute;
        counts.clear();
        entries.clear();
      }
      const common = [type, String(tenant), String(minute)];
      const id = keyedId('log_', [...common, clientId, what, addressKey(address)]);
      const count = counts.get(id) ?? 0;
      // The first one beyond those adds an entry, too.
      const isNew = count <= singlyMax[type];
      if (isNew) {
        const owner = `${type} ${tenant}`;
        const source = `${owner} ${sourceOf(happened)}`;
        const ofOwner = entries.get(owner) ?? 0;
        const ofSource = entries.get(source) ?? 0;
        const isFull = ofOwner >= entriesMax[type] || ofSource >= sourceMax[type];
        if (isFull || counts.size >= kindsMax || !mayAdd()) {
          return { as: 'further', id: keyedId('log_', common) };
        }
        entries.set(owner, ofOwner + 1);
        entries.set(source, ofSource + 1);
      }
      counts.set(id, count + 1);
      return count < singlyMax[type] ? { as: 'own' } : { as: 'equal', id };
    },
  };
}

/** Anybody can name a client in a token request that is refused, and has a /48 of IPv6 at no cost. */
function sourceOf({ type, clientId = '', address, source = clientId }: Happened): string {
  return type === 'feccft' || type === 'fsa' ? networkKey(address) : source;
}
