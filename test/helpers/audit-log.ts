import type { RecordedEntry } from '../../src/core/audit-log.ts';
import type { AuditFilter } from '../../src/store/port/audit-log.ts';
import type { Store } from '../../src/store/port/store.ts';

/** Reads all entries of a tenant that a filter selects, newest first. */
export async function allEntries(
  { auditLog }: Pick<Store, 'auditLog'>,
  tenant: number,
  filter: AuditFilter = {},
): Promise<readonly RecordedEntry[]> {
  const all: RecordedEntry[] = [];
  let after: string | undefined;
  do {
    const page = await auditLog.list(tenant, { ...filter, after, take: 100 });
    all.push(...page.items);
    after = page.next;
  } while (after !== undefined);
  return all;
}
