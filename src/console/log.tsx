import type { EntryShown } from '../schemas/audit-log.ts';
import { links } from './links.ts';
import { Doer, Target } from './log-parts.tsx';
import { doerOf, factsOf, kindOf } from './log-words.ts';
import { SameElsewhere } from './parts/action.tsx';
import { Id, Json } from './parts/copy.tsx';
import { Loaded } from './parts/loaded.tsx';
import { count } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { Time } from './parts/time.tsx';
import { utc } from './parts/when.ts';
import { type Read, useRead } from './queries.ts';
import { RequestFailed } from './request.ts';

/** The page of one entry of the audit log. */
export function Log({ id }: { readonly id: string }) {
  const read = useRead<EntryShown>(`/logs/${encodeURIComponent(id)}`);
  const crumb = { text: 'Audit log', href: links.logs };
  if (isGone(read)) {
    return (
      <Page title="Entry of the audit log" crumb={crumb}>
        <p>
          The audit log has no entry <code class="wrap-anywhere">{id}</code>: entries are removed
          after LEAT_LOG_RETENTION_DAYS, 30 days unless set otherwise.
        </p>
      </Page>
    );
  }
  return (
    <Page
      title={read.data?.description ?? 'Entry of the audit log'}
      crumb={crumb}
      beside={<Id value={id} what="id of the entry" />}
    >
      <Loaded read={read} lines={12}>
        {(entry) => <Entry key={entry.log_id} entry={entry} />}
      </Loaded>
    </Page>
  );
}

function isGone({ data, error }: Read<EntryShown>): boolean {
  return data === undefined && error instanceof RequestFailed && error.status === 404;
}

function Entry({ entry }: { readonly entry: EntryShown }) {
  const { log_id: id, details } = entry;
  const { clientId } = doerOf(entry);
  return (
    <>
      <Panel title="Facts">
        <dl class="facts">
          <dt>When</dt>
          <dd>
            <Time at={entry.date} /> <span class="meta">{utc(entry.date)}</span>
          </dd>
          <dt>What</dt>
          <dd>
            {kindOf(entry.type)} <code class="muted">{entry.type}</code>
            {(entry.count ?? 1) > 1 && `, stands for ${count(entry.count ?? 1)} equal ones`}
          </dd>
          <dt>Who</dt>
          <dd>
            <Doer entry={entry} />
            {clientId !== undefined && (
              <>
                {' '}
                <span class="meta">
                  <a href={links.logsOfClient(clientId)}>what else it did</a>
                </span>
              </>
            )}
          </dd>
          <Targets targets={details.targets} />
          {details.path !== undefined && (
            <Fact name="Request" value={`${details.method ?? ''} ${details.path}`.trim()} />
          )}
          {factsOf(entry).map(({ name, value }) => (
            <Fact key={name} name={name} value={value} />
          ))}
          {entry.ip !== undefined && <Fact name="Address" value={entry.ip} />}
          {entry.user_agent !== undefined && <Fact name="User agent" value={entry.user_agent} />}
        </dl>
      </Panel>
      <Panel title="As JSON">
        <Json value={entry} what="entry as JSON" />
      </Panel>
      <SameElsewhere request={{ method: 'GET', path: `/logs/${id}` }} />
    </>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <code>{value}</code>
      </dd>
    </>
  );
}

function Targets({ targets }: { readonly targets: readonly string[] }) {
  if (targets.length === 0) return null;
  return (
    <>
      <dt>Targets</dt>
      <dd>
        <ul class="stack-tight">
          {targets.map((id) => (
            <li key={id} class="row">
              <Target id={id} />
              <a
                class="meta"
                href={links.logsOfTarget(id)}
                aria-label={`all entries about it: ${id}`}
              >
                all entries about it
              </a>
            </li>
          ))}
        </ul>
      </dd>
    </>
  );
}
