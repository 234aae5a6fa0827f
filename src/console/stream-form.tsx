import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { StreamShown } from '../schemas/streams.ts';
import { commandWord } from './command.ts';
import { type Action, SameElsewhere, useSending } from './parts/action.tsx';
import { Problem } from './parts/loaded.tsx';
import { Notice, say } from './parts/notice.tsx';
import { refresh } from './queries.ts';
import { RequestFailed } from './request.ts';
import { updateCommand, withoutSecrets } from './stream-command.ts';
import { draftOf, type StreamDraft } from './stream-draft.ts';
import { DestinationForm } from './stream-form-destination.tsx';
import type { FormProps } from './stream-form-field.tsx';
import { FilterForm } from './stream-form-filter.tsx';
import { GeneralForm } from './stream-form-general.tsx';
import { OrderForm, RequestForm } from './stream-form-requests.tsx';
import { RetryForm } from './stream-form-retry.tsx';
import { changesOf, problemOf, type Problems } from './stream-patch.ts';
import { keepUnsaved, type Unsaved, unsavedOf } from './unsaved.ts';

interface StreamFormProps {
  readonly stream: StreamShown;
  readonly onClose: () => void;
}

/** Changes the settings of a stream; only what differs is sent. */
export function StreamForm({ stream, onClose }: StreamFormProps) {
  const { base, draft, isFound, patch, problems, edit } = useDraft(stream);
  const [isTried, setTried] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const isChanged = Object.keys(patch).length > 0;
  const close = (): void => {
    keepUnsaved(stream.id, undefined);
    onClose();
  };
  const { sending, refused, clear } = useSaving(base, close);
  useEffect(() => focusProblem(form.current), [isTried, refused]);
  // The link that led here is gone.
  useEffect(() => form.current?.querySelector('input')?.focus(), []);
  const hasProblems = Object.keys(problems).length > 0;
  const parts: FormProps = {
    draft,
    problems: { ...shownProblems(problems, isTried), ...refused },
    set: (changes: Partial<StreamDraft>) => {
      clear();
      edit((before) => ({ ...before, draft: { ...before.draft, ...changes } }));
    },
  };
  const begin = (): void => {
    edit(() => beginningOf(stream));
    setTried(false);
  };
  return (
    <form
      ref={form}
      class="settings"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        setTried(hasProblems);
        if (hasProblems) focusProblem(form.current);
        else if (isChanged) void sending.start(actionOf(base, patch));
      }}
    >
      {stream.updated_at !== base.updated_at && <Overtaken onBegin={begin} />}
      {isFound && <Notice tone="info">You have not saved these changes yet.</Notice>}
      <GeneralForm {...parts} />
      <DestinationForm {...parts} />
      <RetryForm {...parts} />
      <FilterForm {...parts} streamId={stream.id} />
      <OrderForm {...parts} />
      <RequestForm {...parts} />
      <div class="save-bar">
        {sending.error !== undefined && refused === undefined && <Problem error={sending.error} />}
        {isTried && hasProblems && (
          <p class="bad" role="alert">
            Not saved: correct what is marked.
          </p>
        )}
        {isChanged && !hasProblems && <SameElsewhere {...shownAction(base, patch)} />}
        <div class="row row-spread">
          <span class="muted">{changedWords(patch)}</span>
          <span class="row">
            <button type="button" class="button" onClick={close}>
              {isChanged ? 'Discard changes' : 'Close'}
            </button>
            <Save isChanged={isChanged} isSending={sending.isSending} />
          </span>
        </div>
      </div>
    </form>
  );
}

function beginningOf(stream: StreamShown): Unsaved {
  return { base: stream, draft: draftOf(stream) };
}

/** What is edited, and what would be sent; goes on with what was not saved before, if that is found. */
function useDraft(stream: StreamShown) {
  const [former] = useState(() => unsavedOf(stream.id));
  const [edited, edit] = useState(() => former ?? beginningOf(stream));
  const { base, draft } = edited;
  const { patch, problems } = useMemo(() => changesOf(base, draft), [edited]);
  // What is not valid yet is in no patch.
  const isEdited = Object.keys({ ...patch, ...problems }).length > 0;
  useEffect(() => keepUnsaved(stream.id, isEdited ? edited : undefined), [edited, isEdited]);
  return { base, draft, isFound: former !== undefined && isEdited, patch, problems, edit };
}

interface SaveProps {
  readonly isChanged: boolean;
  readonly isSending: boolean;
}

function Save({ isChanged, isSending }: SaveProps) {
  return (
    <button type="submit" class="button primary" disabled={!isChanged} aria-disabled={isSending}>
      {isSending ? 'Saving …' : 'Save'}
    </button>
  );
}

/** Sends changes, and sorts out what the server refuses: at its field where it has one. */
function useSaving(stream: StreamShown, onClose: () => void) {
  const [seen, setSeen] = useState<unknown>();
  const sending = useSending<StreamShown>(() => {
    refresh([`/event-streams/${stream.id}`, '/stream-health', '/overview', '/logs']);
    say('The settings are saved.');
    onClose();
  });
  const { error } = sending;
  const refused = useMemo(
    () =>
      error instanceof RequestFailed && error !== seen
        ? problemOf(error.message, error.code)
        : undefined,
    [error, seen],
  );
  const visible = { ...sending, error: error === seen ? undefined : error };
  return { sending: visible, refused, clear: () => setSeen(error) };
}

/** A filter is checked while it is written; the rest when somebody saves. */
function shownProblems(problems: Problems, isTried: boolean): Problems {
  if (isTried) return problems;
  const { 'delivery.filter': filter, 'delivery.retry': retry } = problems;
  return {
    ...(filter === undefined ? {} : { 'delivery.filter': filter }),
    ...(retry === undefined ? {} : { 'delivery.retry': retry }),
  };
}

type Patch = ReturnType<typeof changesOf>['patch'];

function actionOf(stream: StreamShown, patch: Patch): Action {
  const { id, name } = stream;
  return {
    request: { method: 'PATCH', path: `/event-streams/${id}`, body: patch },
    command: updateCommand(commandWord({ event_stream_id: id, name }), patch, stream),
  };
}

/** The same as it is shown: without secrets. */
function shownAction(stream: StreamShown, patch: Patch): Action {
  return actionOf(stream, withoutSecrets(patch));
}

const partNames: Readonly<Record<string, string>> = {
  name: 'name',
  subscriptions: 'event types',
  destination: 'endpoint',
  delivery: 'delivery',
};

function changedWords(patch: Patch): string {
  const names = Object.keys(patch).map((name) => partNames[name] ?? name);
  return names.length === 0 ? 'Nothing is changed yet.' : `Changed: ${names.join(', ')}`;
}

function Overtaken({ onBegin }: { readonly onBegin: () => void }) {
  return (
    <Notice tone="warn">
      <div class="row row-spread">
        <span>
          The stream was changed since you began. Saving sends what differs from the values that you
          began with.
        </span>
        <button type="button" class="button small" onClick={onBegin}>
          Begin again with the new values
        </button>
      </div>
    </Notice>
  );
}

function focusProblem(form: HTMLFormElement | null): void {
  form?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
}
