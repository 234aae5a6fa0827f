import type { AuditEntry } from '../core/audit-log.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { makeId } from '../core/ids.ts';
import { type AuditWriterDeps, createAuditWriter, type WaitingEntries } from './audit-writer.ts';
import { type AuditBounds, createAuditMinute, type Happened } from './audit-minute.ts';

/**
 * Records what changes nothing in the store: refusals and issued tokens. They wait in memory, equal
 * ones are added up, and all of it is bounded (docs/audit-log.md#bounds).
 */
export interface AuditRecorder {
  /** Returns at once; the entry is in the store some seconds later. */
  note(happened: Happened): void;
  /** Writes what waits, if the store responds. */
  close(): Promise<void>;
}

export interface AuditRecorderDeps extends AuditWriterDeps {
  readonly clock: Pick<Clock, 'now' | 'elapsedMs' | 'after'>;
  readonly random: RandomBytes;
}

const bounds: AuditBounds = {
  singlyMax: { fapi: 0, feccft: 0, fsa: 0, seccft: 60 },
  entriesMax: { fapi: 300, feccft: 300, fsa: 300, seccft: 1200 },
  sourceMax: { fapi: 100, feccft: 60, fsa: 60, seccft: 600 },
  kindsMax: 20_000,
};

/** Entries that wait for the store, of a kilobyte or two at most. */
const waitingMax = 5000;
/** Those of one tenant: others have room while the store does not respond. */
const waitingOfTenantMax = 2000;

const minuteMs = 60_000;

/** Creates the recorder; it writes for the first time a second after something happened. */
export function createAuditRecorder(deps: AuditRecorderDeps): AuditRecorder {
  const { clock, random } = deps;
  const waiting: WaitingEntries = new Map();
  /** Entries of what is beyond the bounds, by tenant and type, while they wait. */
  const further: WaitingEntries = new Map();
  const minute = createAuditMinute(bounds);
  const writer = createAuditWriter(deps, [waiting, further]);

  const add = (list: WaitingEntries, key: string, entry: () => AuditEntry): void => {
    const before = list.get(key);
    if (before === undefined) {
      list.set(key, { entry: entry(), sinceMs: clock.elapsedMs(), count: 1 });
      writer.start();
    } else {
      before.count += 1;
    }
  };

  return {
    note: (happened) => {
      const now = clock.now();
      const number = Math.floor(now / minuteMs);
      const mayAdd = (): boolean => hasRoom(waiting, happened.tenant);
      const recording = minute.decide(happened, number, mayAdd);
      if (recording.as === 'further') {
        // Not by its id: while the store does not respond, minutes add nothing to what waits.
        const key = `${happened.type} ${happened.tenant}`;
        add(further, key, () => furtherEntry(happened, recording.id));
        return;
      }
      const id = recording.as === 'own' ? makeId('log_', now, random) : recording.id;
      add(waiting, `${happened.tenant} ${id}`, () => entryOf(happened, id));
    },
    close: writer.close,
  };
}

/** Whether a further entry of a tenant may wait. */
function hasRoom(waiting: WaitingEntries, tenant: number): boolean {
  if (waiting.size < waitingOfTenantMax) return true;
  if (waiting.size >= waitingMax) return false;
  let count = 0;
  for (const { entry } of waiting.values()) if (entry.tenant === tenant) count += 1;
  return count < waitingOfTenantMax;
}

function entryOf(
  { what: _what, source: _source, address: _address, ...entry }: Happened,
  id: string,
): AuditEntry {
  return { ...entry, id };
}

/** Returns the entry that stands for several clients and addresses. */
function furtherEntry({ tenant, type }: Happened, id: string): AuditEntry {
  const details = { targets: [], merged: true };
  return { tenant, id, type, description: furtherDescriptions[type], details };
}

const furtherDescriptions: Readonly<Record<Happened['type'], string>> = {
  fapi: 'Further refused requests',
  seccft: 'Further issued tokens',
  feccft: 'Further refused tokens',
  fsa: 'Further refused sign-ins to the console',
};
