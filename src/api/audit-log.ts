import {
  type AuditType,
  auditTypes,
  parseAuditKey,
  type RecordedEntry,
} from '../core/audit-log.ts';
import { formatTime } from '../core/date.ts';
import {
  entries,
  type EntriesQuery,
  entriesQuery,
  entry,
  entryParams,
  type EntryShown,
} from '../schemas/audit-log.ts';
import type { FieldsQuery } from '../schemas/fields.ts';
import type { AuditFilter } from '../store/port/audit-log.ts';
import type { Store } from '../store/port/store.ts';
import { windowOf } from './formats.ts';
import { badQuery } from './http/problem.ts';
import { enumViolation } from './http/violation.ts';
import type { JsonText } from './http/sliced-json.ts';
import { noEntry, orNotFound } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import {
  isCursorPage,
  nextOf,
  numberedItemsMax,
  numberedPageOf,
  numberedResponse,
  pageOf,
  refuseFarPage,
} from './page.ts';
import type { ApiSettings } from './settings.ts';
import { showFields } from './show-fields.ts';

export interface AuditLogDeps {
  readonly store: Pick<Store, 'auditLog'>;
  readonly settings: Pick<ApiSettings, 'limits'>;
}

const shared = {
  tag: 'Logs',
  lifecycle: 'Early Access',
  scopes: ['read:logs'],
} as const;

/** Creates the operations of the audit log (docs/http-api.md#audit-log). */
export function auditLogOperations(deps: AuditLogDeps): Operation[] {
  return [listEntries(deps), readEntry(deps)];
}

function listEntries(deps: AuditLogDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listLogs',
    method: 'GET',
    path: '/logs',
    summary: 'List entries of the audit log, newest first',
    description:
      'With `page`: the newest 1,000 entries by page number. With `take` and `from`: all entries.',
    query: entriesQuery,
    isList: true,
    success: 200,
    response: entries,
    handle: async ({ tenant, query }) => {
      const read = isCursorPage(query) ? pageByCursor : pageByNumber;
      return { body: await read(deps, tenant.id, query) };
    },
  });
}

function readEntry({ store }: AuditLogDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readLog',
    method: 'GET',
    path: '/logs/:id',
    summary: 'Read one entry of the audit log',
    params: entryParams,
    success: 200,
    response: entry,
    errors: [404],
    handle: async ({ tenant, params }) => {
      const found = await store.auditLog.get(tenant.id, params.id);
      return { body: show(orNotFound(found, noEntry, params.id)) };
    },
  });
}

async function pageByNumber(
  { store }: AuditLogDeps,
  tenant: number,
  query: EntriesQuery,
): Promise<object> {
  const page = numberedPageOf(query);
  refuseFarPage(page);
  const request = {
    ...filterOf(query),
    skip: page.page * page.perPage,
    take: page.perPage,
    totalMax: numberedItemsMax,
  };
  const { items, total } = await store.auditLog.listNumbered(tenant, request);
  return numberedResponse('logs', { items: items.map((item) => show(item, query)), total }, query);
}

async function pageByCursor(
  { store, settings }: AuditLogDeps,
  tenant: number,
  query: EntriesQuery,
): Promise<object> {
  const { after, take } = pageOf(query, settings.limits, isKey);
  const { items, next } = await store.auditLog.list(tenant, { ...filterOf(query), after, take });
  return { logs: items.map((item) => show(item, query)), ...nextOf(next) };
}

function isKey(key: string): boolean {
  return parseAuditKey(key) !== undefined;
}

function filterOf(query: EntriesQuery): AuditFilter {
  const { client_id: client, target } = query;
  const types = query.types?.split(',');
  const other = types?.find((type) => !isType(type));
  if (other !== undefined) {
    throw badQuery(enumViolation(other, auditTypes), 'types', 'Types, comma separated');
  }
  return { ...windowOf(query, badQuery), types: types?.filter(isType), client, target };
}

function isType(text: string): text is AuditType {
  return auditTypes.some((type) => type === text);
}

function show(recorded: RecordedEntry, query?: FieldsQuery): JsonText {
  const { id, at, type, description, clientId, clientName, ip, userAgent, details } = recorded;
  const shown: EntryShown = {
    log_id: id,
    date: formatTime(at),
    type,
    description,
    ...(clientId === undefined ? {} : { client_id: clientId }),
    ...(clientName === undefined ? {} : { client_name: clientName }),
    ...(ip === undefined ? {} : { ip }),
    ...(userAgent === undefined ? {} : { user_agent: userAgent }),
    details: { ...details, targets: [...details.targets] },
    ...(recorded.count === 1 ? {} : { count: recorded.count }),
  };
  return showFields([JSON.stringify(shown)], query);
}
