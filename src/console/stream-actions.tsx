import { useState } from 'preact/hooks';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import { commandWord, quoted } from './command.ts';
import { type Action, ActionDialog, Allowed } from './parts/action.tsx';
import { say } from './parts/notice.tsx';
import { plural } from './parts/numbers.ts';
import { Time } from './parts/time.tsx';
import { refresh } from './queries.ts';
import { isAllowed } from './session.ts';

const update = 'update:event_streams';

interface StreamActionsProps {
  readonly stream: StreamHealthShown;
  readonly isSmall?: boolean;
}

/** Returns whether the role has any of the buttons; one that may pause may do the others of the list. */
export function mayActOnStreams(): boolean {
  return isAllowed(update, 'pauseEventStream');
}

type Open = 'pause' | 'resume' | 'enable' | 'disable' | 'test';

/** The buttons for what can be done with a stream in its present state. */
export function StreamActions({ stream, isSmall }: StreamActionsProps) {
  const [open, setOpen] = useState<Open>();
  const button = (name: Open, text: string, operation?: string) => (
    <Allowed scope={update} {...(operation === undefined ? {} : { operation })}>
      <button
        type="button"
        class={isSmall === true ? 'button small' : 'button'}
        onClick={() => setOpen(name)}
      >
        {text}
        {isSmall === true && <span class="visually-hidden"> {stream.name}</span>}
      </button>
    </Allowed>
  );
  const isDisabled = stream.status === 'disabled';
  return (
    <span class={isSmall === true ? 'row row-fixed' : 'row'}>
      {isDisabled && button('enable', 'Enable')}
      {!isDisabled && stream.paused !== null && button('resume', 'Resume', 'resumeEventStream')}
      {!isDisabled && stream.paused === null && button('pause', 'Pause', 'pauseEventStream')}
      {button('test', 'Test', 'sendTestEvent')}
      {isSmall !== true && !isDisabled && button('disable', 'Disable')}
      <OpenDialog stream={stream} open={open} onClose={() => setOpen(undefined)} />
    </span>
  );
}

interface StreamDialogProps {
  readonly stream: StreamHealthShown;
  readonly onClose: () => void;
}

function OpenDialog({ open, ...props }: StreamDialogProps & { readonly open: Open | undefined }) {
  switch (open) {
    case undefined:
      return null;
    case 'pause':
      return <PauseDialog {...props} />;
    case 'resume':
      return <ResumeDialog {...props} />;
    case 'enable':
      return <EnableDialog {...props} />;
    case 'disable':
      return <DisableDialog {...props} />;
    case 'test':
      return <TestDialog {...props} />;
  }
}

/** Reads again what shows a stream. */
function changed({ event_stream_id: id }: StreamHealthShown): void {
  refresh([`/event-streams/${id}`, '/stream-health', '/overview']);
}

function PauseDialog({ stream, onClose }: StreamDialogProps) {
  const [reason, setReason] = useState('');
  const option = reason === '' ? '' : ` --reason ${quoted(reason)}`;
  const action: Action = {
    request: {
      method: 'POST',
      path: `/event-streams/${stream.event_stream_id}/pause`,
      ...(reason === '' ? {} : { body: { reason } }),
    },
    command: `leat streams pause ${commandWord(stream)}${option}`,
  };
  return (
    <ActionDialog
      title={`Pause ${stream.name}`}
      label="Pause"
      action={action}
      onClose={onClose}
      onDone={() => {
        changed(stream);
        say(`${stream.name} is paused.`);
      }}
    >
      <p>
        Its events wait in the log, and none is skipped. Attempts under way end. Redeliveries and
        test events are still sent.
      </p>
      <label class="field">
        <span class="label">Reason, for colleagues</span>
        <input
          value={reason}
          maxLength={256}
          placeholder="CRM upgrade"
          onInput={({ currentTarget }) => setReason(currentTarget.value)}
        />
      </label>
    </ActionDialog>
  );
}

function ResumeDialog({ stream, onClose }: StreamDialogProps) {
  const { lag, paused } = stream;
  return (
    <ActionDialog
      title={`Resume ${stream.name}`}
      label="Resume"
      action={{
        request: { method: 'POST', path: `/event-streams/${stream.event_stream_id}/resume` },
        command: `leat streams resume ${commandWord(stream)}`,
      }}
      onClose={onClose}
      onDone={() => {
        changed(stream);
        say(`${stream.name} is resumed.`);
      }}
    >
      <p>
        {waiting(lag)} will be sent, oldest first. It has been paused since <Time at={paused?.at} />
        {(paused?.reason ?? null) === null ? '.' : `: ${paused?.reason ?? ''}`}
      </p>
    </ActionDialog>
  );
}

function EnableDialog({ stream, onClose }: StreamDialogProps) {
  const [resume, setResume] = useState<'held' | 'latest'>('held');
  const { disabled } = stream;
  const held = waiting({ events: disabled?.waiting_events ?? 0, at_least: disabled?.at_least });
  return (
    <ActionDialog
      title={`Enable ${stream.name}`}
      label="Enable"
      action={{
        request: {
          method: 'PATCH',
          path: `/event-streams/${stream.event_stream_id}`,
          body: { status: 'enabled', resume },
        },
        command: `leat streams enable ${commandWord(stream)} --resume ${resume}`,
      }}
      onClose={onClose}
      onDone={() => {
        changed(stream);
        say(`${stream.name} is enabled.`);
      }}
    >
      <fieldset class="stack-tight">
        <legend>{held} arrived while it was disabled</legend>
        <label class="check">
          <input
            type="radio"
            name="resume"
            checked={resume === 'held'}
            onChange={() => setResume('held')}
          />
          <span>Send them now, oldest first, then what follows</span>
        </label>
        <label class="check">
          <input
            type="radio"
            name="resume"
            checked={resume === 'latest'}
            onChange={() => setResume('latest')}
          />
          <span>
            Skip them, and send what is published from now on. They can be sent later as a skipped
            range, while the log has them.
          </span>
        </label>
      </fieldset>
    </ActionDialog>
  );
}

function DisableDialog({ stream, onClose }: StreamDialogProps) {
  return (
    <ActionDialog
      title={`Disable ${stream.name}`}
      label="Disable"
      isDanger
      action={{
        request: {
          method: 'PATCH',
          path: `/event-streams/${stream.event_stream_id}`,
          body: { status: 'disabled' },
        },
        command: `leat streams disable ${commandWord(stream)}`,
      }}
      onClose={onClose}
      onDone={() => {
        changed(stream);
        say(`${stream.name} is disabled.`);
      }}
    >
      <p>
        It sends nothing until it is enabled.{' '}
        {stream.retrying === 0
          ? 'Nothing waits for a retry.'
          : `${plural(stream.retrying, 'delivery', 'deliveries')} that wait for a retry become failures.`}{' '}
        To let events wait instead, pause it.
      </p>
    </ActionDialog>
  );
}

function TestDialog({ stream, onClose }: StreamDialogProps) {
  const [type, setType] = useState('user.created');
  const { event_stream_id: id, name } = stream;
  return (
    <ActionDialog
      title={`Send a test event to ${name}`}
      label="Send"
      action={{
        request: { method: 'POST', path: `/event-streams/${id}/test`, body: { event_type: type } },
        command: `leat test ${commandWord(stream)} --type ${quoted(type)}`,
      }}
      onClose={onClose}
      onDone={() => {
        changed(stream);
        say(
          `A test event is on its way to ${name}; its attempt appears on the page of the stream.`,
        );
      }}
    >
      <p>A sample event of this type is sent at once, to this stream alone, signed as any other.</p>
      <label class="field">
        <span class="label">Event type</span>
        <input
          value={type}
          required
          pattern="[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+"
          title="Two or more segments of a-z, 0-9 and _, joined by dots"
          spellcheck={false}
          onInput={({ currentTarget }) => setType(currentTarget.value)}
        />
      </label>
    </ActionDialog>
  );
}

/** Returns a number of waiting events in words. */
function waiting({
  events,
  at_least: atLeast,
}: {
  readonly events: number;
  readonly at_least?: boolean | undefined;
}): string {
  if (events === 0 && atLeast !== true) return 'No events';
  return `${atLeast === true ? 'At least ' : ''}${plural(events, 'event')}`;
}
