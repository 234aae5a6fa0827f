import { alertChannels } from '../core/alert-channels.ts';
import { useState } from 'preact/hooks';
import type { AlertTestShown } from '../schemas/alert-test.ts';
import type { NodeSettingsShown } from '../schemas/node-settings.ts';
import { Ways } from './access-parts.tsx';
import { useParameters } from './location.ts';
import { ServicePage } from './node-parts.tsx';
import { ActionDialog, SameElsewhere } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Id } from './parts/copy.tsx';
import { Search } from './parts/filters.tsx';
import { Loaded } from './parts/loaded.tsx';
import { count } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { useRead } from './queries.ts';
import { type Setting, settingsWith } from './setting-search.ts';
import './settings.css';

/** The settings in force, the keys, and where alerts are sent. */
export function Settings() {
  return (
    <ServicePage title="Settings">
      <Content />
    </ServicePage>
  );
}

function Content() {
  const read = useRead<NodeSettingsShown>('/settings');
  return (
    <Page title="Settings">
      <Loaded read={read} lines={12}>
        {({ settings, keys, alert_channels: channels }) => (
          <>
            <AlertChannels channels={channels} />
            <Keys keys={keys} />
            <InForce settings={settings} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

type Channel = NodeSettingsShown['alert_channels'][number];

function AlertChannels({ channels }: { readonly channels: readonly Channel[] }) {
  const [isOpen, setOpen] = useState(false);
  const [result, setResult] = useState<AlertTestShown>();
  return (
    <Panel
      title="Alerts are sent to"
      beside={
        <button type="button" class="button" onClick={() => setOpen(true)}>
          Send a test alert
        </button>
      }
    >
      <div>
        <dl class="facts">
          {channels.map(({ channel, target }) => (
            <Channel key={channel} name={alertChannels[channel].title} target={target} />
          ))}
        </dl>
        <div role="status" class="test-result">
          {result !== undefined && <TestResult {...result} />}
        </div>
      </div>
      {isOpen && (
        <ActionDialog<AlertTestShown>
          title="Send a test alert"
          label="Send it"
          action={{
            request: { method: 'POST', path: '/alerts/test' },
            command: 'leat doctor --test-alert',
          }}
          onDone={setResult}
          onClose={() => setOpen(false)}
        >
          <p>
            Sends an alert of the kind <code>test</code> to each channel, as other alerts are sent,
            and waits for its outcome: up to 11 s.
          </p>
        </ActionDialog>
      )}
    </Panel>
  );
}

interface ChannelProps {
  readonly name: string;
  readonly target: string | undefined;
}

function Channel({ name, target }: ChannelProps) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{target === undefined ? 'as lines of its log' : <code>{target}</code>}</dd>
    </>
  );
}

function TestResult({ channels }: AlertTestShown) {
  return (
    <ul class="stack-tight">
      {channels.map(({ channel, sent, error_message: error }) => (
        <li key={channel} class="row">
          <Badge state={sent ? 'delivered' : 'failed'} text={sent ? 'sent' : 'not sent'} />
          <span>{alertChannels[channel].title}</span>
          {error !== undefined && <code class="wrap-anywhere">{error}</code>}
        </li>
      ))}
    </ul>
  );
}

type Key = NodeSettingsShown['keys'][number];

function Keys({ keys }: { readonly keys: readonly Key[] }) {
  return (
    <>
      <Panel title="Keys" isFlush>
        <Table
          caption="Keys"
          columns={keyColumns}
          rows={keys}
          keyOf={({ kid, signs }) => `${signs} ${kid}`}
        />
      </Panel>
      <details>
        <summary>Rotate and revoke keys</summary>
        <Ways
          ways={[
            {
              what: 'Sign access tokens with a new key, 10 minutes after it is published',
              command: 'leat keys rotate',
            },
            { what: 'Sign webhooks (v1a) with a new key', command: 'leat keys rotate --webhooks' },
            {
              what: 'Revoke a key that has leaked: what it signed is rejected at once',
              command: `leat keys revoke ${keys[0]?.kid ?? '<kid>'}`,
            },
          ]}
        />
      </details>
    </>
  );
}

const keyColumns: readonly Column<Key>[] = [
  {
    title: 'Key (kid)',
    narrow: 'first',
    cell: ({ kid }) => <Id value={kid} what={`kid ${kid}`} />,
  },
  { title: 'Signs', narrow: 'labelled', cell: ({ signs }) => signs },
  { title: 'State', narrow: 'line', cell: (key) => <KeyState {...key} /> },
  { title: 'From', narrow: 'labelled', cell: ({ signs_from: at }) => <Time at={at} /> },
  {
    title: 'Published until',
    narrow: 'labelled',
    cell: ({ expires_at: at }) => <Time at={at} none="a newer one replaces it" />,
  },
];

function KeyState({ is_signing: isSigning, expires_at: until }: Key) {
  if (isSigning) return <Badge state="ok" text="signs" />;
  return until === null ? (
    <Badge state="waiting" text="will sign" />
  ) : (
    <Badge state="disabled" text="still verifies" />
  );
}

/** The list is short, so it is searched here. */
function InForce({ settings }: { readonly settings: readonly Setting[] }) {
  const shown = settingsWith(settings, useParameters().get('q') ?? '');
  const changed = settings.filter(({ is_default: isDefault }) => !isDefault).length;
  return (
    <section class="stack" aria-label="Settings in force">
      <h2>Settings in force</h2>
      <p class="muted">
        {count(changed)} of {count(settings.length)} are changed, and come first. They are those of
        the node that sends this page; set them in its environment and start it again.
      </p>
      <div class="toolbar">
        <Search name="q" label="Search" placeholder="Name or meaning" />
      </div>
      <Table
        caption="Settings"
        columns={columns}
        rows={shown}
        keyOf={({ name }) => name}
        empty="No setting has these words in its name or meaning."
      />
      <SameElsewhere request={{ method: 'GET', path: '/settings' }} command="leat config" />
    </section>
  );
}

const columns: readonly Column<Setting>[] = [
  {
    title: 'Setting',
    narrow: 'first',
    cell: ({ name, meaning }) => (
      <span class="stacked">
        <code class="wrap-anywhere">{name}</code>
        <span class="meta">{meaning}</span>
      </span>
    ),
  },
  {
    title: 'In force',
    narrow: 'line',
    cell: ({ value, is_default: isDefault }) => (
      <span class="stacked">
        <Value text={value} />
        {!isDefault && <span class="meta">changed</span>}
      </span>
    ),
  },
  {
    title: 'Default',
    narrow: 'labelled',
    cell: ({ default: text, is_default: isDefault }) =>
      isDefault ? <span class="muted">the same</span> : <Value text={text} />,
  },
];

function Value({ text }: { readonly text: string | null }) {
  return text === null ? (
    <span class="muted">not set</span>
  ) : (
    <code class="setting-value">{text === '' ? '(empty)' : text}</code>
  );
}
