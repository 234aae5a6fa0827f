import { useEffect, useState } from 'preact/hooks';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import type { SigningSecretShown } from '../schemas/streams.ts';
import { now } from './clock.ts';
import { commandWord } from './command.ts';
import { ActionDialog, Allowed } from './parts/action.tsx';
import { Code } from './parts/copy.tsx';
import { Notice, say } from './parts/notice.tsx';
import { Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { Time } from './parts/time.tsx';
import { refresh } from './queries.ts';
import type { StreamProps } from './stream-props.ts';

const update = 'update:event_streams';

/** The secrets that sign the requests of a stream; a secret itself only when it is asked for. */
export function StreamSecrets({ health, stream }: StreamProps) {
  const [open, setOpen] = useState<'show' | 'rotate'>();
  const [secret, setSecret] = useSecret();
  const onClose = (): void => setOpen(undefined);
  const { signature = 'v1' } = stream.delivery ?? {};
  return (
    <>
      <Panel
        title="Signing secrets"
        isFlush
        beside={
          <Allowed scope={update}>
            <span class="row">
              {secret === undefined && (
                <button type="button" class="button" onClick={() => setOpen('show')}>
                  Show secret
                </button>
              )}
              <button type="button" class="button" onClick={() => setOpen('rotate')}>
                Rotate secret
              </button>
            </span>
          </Allowed>
        }
      >
        {secret !== undefined && (
          <Notice tone="info">
            <p>The present secret of {health.name}. It is hidden again when you leave this tab.</p>
            <Code text={secret} what="signing secret" />
            <div>
              <button type="button" class="button small" onClick={() => setSecret(undefined)}>
                Hide secret
              </button>
            </div>
          </Notice>
        )}
        <Table
          caption="Signing secrets"
          columns={columns}
          rows={health.signing_secrets}
          keyOf={({ created_at: at }) => at}
        />
      </Panel>
      <p class="muted">
        {signatureWords[signature]} A receiver that verifies signatures knows that a request is from
        Leat, and unchanged.
      </p>
      {open === 'show' && <ShowDialog {...{ health, onClose, onSecret: setSecret }} />}
      {open === 'rotate' && <RotateDialog {...{ health, onClose, onSecret: setSecret }} />}
    </>
  );
}

const signatureWords = {
  v1: 'Each request is signed with the valid secrets (Standard Webhooks, v1).',
  v1a: 'Each request is signed with the key of the tenant (v1a), not with these secrets.',
  'v1 v1a':
    'Each request is signed with the valid secrets (Standard Webhooks, v1) and with the key of the tenant (v1a).',
} as const;

type Secret = StreamHealthShown['signing_secrets'][number];

const columns: readonly Column<Secret>[] = [
  {
    title: 'Secret',
    narrow: 'first',
    cell: ({ expires_at: end }) => (end === null ? 'Present' : 'Former'),
  },
  { title: 'Created', narrow: 'labelled', cell: ({ created_at: at }) => <Time at={at} /> },
  {
    title: 'Signs until',
    narrow: 'labelled',
    cell: ({ expires_at: end }) =>
      end === null ? <span class="muted">it is rotated</span> : <Time at={end} />,
  },
];

/** A secret that is forgotten when the page is left or covered. */
function useSecret(): [string | undefined, (secret: string | undefined) => void] {
  const [secret, setSecret] = useState<string>();
  useEffect(() => {
    const hide = (): void => {
      if (document.hidden) setSecret(undefined);
    };
    document.addEventListener('visibilitychange', hide);
    return () => document.removeEventListener('visibilitychange', hide);
  }, []);
  return [secret, setSecret];
}

interface SecretDialogProps {
  readonly health: StreamHealthShown;
  readonly onClose: () => void;
  readonly onSecret: (secret: string) => void;
}

function ShowDialog({ health, onClose, onSecret }: SecretDialogProps) {
  return (
    <ActionDialog<SigningSecretShown>
      title={`Show the signing secret of ${health.name}`}
      label="Show secret"
      action={{
        request: { method: 'GET', path: `/event-streams/${health.event_stream_id}/signing-secret` },
        command: `leat streams secret ${commandWord(health)}`,
      }}
      onClose={onClose}
      onDone={({ secret }) => {
        onSecret(secret);
        refresh(['/logs']);
      }}
    >
      <p>
        Whoever has it can sign requests that the receiver takes for ours. Reading it leaves a line
        in the audit log, with your name.
      </p>
    </ActionDialog>
  );
}

const overlaps = [
  { seconds: 0, text: 'No time: it ends now' },
  { seconds: 3600, text: '1 hour' },
  { seconds: 86_400, text: '24 hours' },
  { seconds: 604_800, text: '7 days' },
] as const;

function RotateDialog({ health, onClose, onSecret }: SecretDialogProps) {
  const [overlap, setOverlap] = useState(86_400);
  const [isForced, setForced] = useState(false);
  const { event_stream_id: id, signing_secrets: secrets } = health;
  const former = secrets.find(({ expires_at: end }) => end !== null && Date.parse(end) > now());
  const body = { overlap_seconds: overlap, ...(isForced ? { force: true } : {}) };
  const command = `leat streams secret ${commandWord(health)} --rotate --overlap ${overlap}`;
  const action = {
    request: { method: 'POST', path: `/event-streams/${id}/signing-secret/rotate`, body } as const,
    command: isForced ? `${command} --force` : command,
  };
  return (
    <ActionDialog<SigningSecretShown>
      title={`Rotate the signing secret of ${health.name}`}
      label="Rotate secret"
      isDanger={isForced || overlap === 0}
      action={former === undefined || isForced ? action : undefined}
      onClose={onClose}
      onDone={({ secret }) => {
        onSecret(secret);
        refresh([`/event-streams/${id}`, '/logs']);
        say(`${health.name} signs with a new secret.`);
      }}
    >
      <p>
        A new secret signs from now on, and is shown next. Give it to the receiver before the
        present one ends: until then each request carries both signatures.
      </p>
      <label class="field">
        <span class="label">The present secret stays valid for</span>
        <select value={overlap} onChange={({ currentTarget }) => setOverlap(+currentTarget.value)}>
          {overlaps.map(({ seconds, text }) => (
            <option key={seconds} value={seconds}>
              {text}
            </option>
          ))}
        </select>
      </label>
      {overlap === 0 && (
        <Notice tone="warn">
          Until the receiver has the new secret, it rejects every request of this stream.
        </Notice>
      )}
      {former !== undefined && <Pending until={former.expires_at} {...{ isForced, setForced }} />}
    </ActionDialog>
  );
}

interface PendingProps {
  readonly until: string | null;
  readonly isForced: boolean;
  readonly setForced: (isForced: boolean) => void;
}

/** The former secret is valid still: there are two at most. */
function Pending({ until, isForced, setForced }: PendingProps) {
  return (
    <Notice tone="warn">
      <p>
        A former secret is still valid: it ends <Time at={until} />. A stream has two at most. A
        receiver that still verifies with it rejects every request once it ends.
      </p>
      <label class="check">
        <input
          type="checkbox"
          checked={isForced}
          onChange={({ currentTarget }) => setForced(currentTarget.checked)}
        />
        <span>End the former secret now</span>
      </label>
    </Notice>
  );
}
