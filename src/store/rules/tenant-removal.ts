/** The result of a step of removing a tenant. */
export interface RemovalStep {
  readonly removed: number;
  readonly isDone: boolean;
  /** Streams that were removed. */
  readonly streams: readonly string[];
}

/** A table with rows of tenants, and the columns that identify a row of one tenant. */
interface TenantTable {
  readonly name: string;
  readonly key: readonly string[];
}

/** Tables with the same key on both engines, those first that grant access. */
const tables: readonly TenantTable[] = [
  { name: 'signing_keys', key: ['number'] },
  { name: 'clients', key: ['id'] },
  { name: 'grants', key: ['id'] },
  { name: 'assertions', key: ['client', 'jti'] },
  { name: 'apis', key: ['id'] },
  { name: 'role_users', key: ['role', 'user'] },
  { name: 'role_clients', key: ['role', 'client'] },
  { name: 'role_permissions', key: ['role', 'api', 'name'] },
  { name: 'roles', key: ['id'] },
  { name: 'users', key: ['id'] },
  { name: 'deliveries', key: ['stream', 'event_id'] },
  { name: 'replays', key: ['stream', 'id'] },
  { name: 'stream_stats', key: ['stream', 'hour'] },
  { name: 'kept_events', key: ['offset'] },
];

/** The `run` of either engine: the number of rows changed, or a promise of it. */
interface Runner<Changed> {
  run(strings: TemplateStringsArray, ...values: number[]): Changed;
}

/** Each function removes at most `take` rows of a tenant from one table. */
export const tenantTableRemovals = tables.map(({ name, key }) => {
  const columns = key.map((column) => `"${column}"`).join(', ');
  const strings = literalOf(
    `delete from ${name} where tenant = `,
    ` and (${columns}) in (select ${columns} from ${name} where tenant = `,
    ' limit ',
    ')',
  );
  return <Changed>(db: Runner<Changed>, tenant: number, take: number): Changed =>
    db.run(strings, tenant, tenant, take);
});

/**
 * Returns what a tag receives for a template literal with these parts. Made once, because
 * statements are cached by it.
 */
function literalOf(...parts: readonly string[]): TemplateStringsArray {
  return Object.assign([...parts], { raw: parts });
}
