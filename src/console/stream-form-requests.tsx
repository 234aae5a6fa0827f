import { Icon } from './parts/icon.tsx';
import { Panel } from './parts/page.tsx';
import type { HeaderDraft, StreamDraft } from './stream-draft.ts';
import {
  ChoiceField,
  focusAdding,
  type FormProps,
  ProblemText,
  TextField,
} from './stream-form-field.tsx';

const orders = {
  none: 'None: events are sent at once',
  field: 'Events with the same value one after the other',
  all: 'All events one after the other',
} as const satisfies Record<StreamDraft['order'], string>;

const afterFailure = {
  continue: 'The next one follows',
  block: 'They wait until the failure is repaired',
} as const;

/** In which order events are sent. */
export function OrderForm({ draft, set, problems }: FormProps) {
  return (
    <Panel title="Order">
      <div class="stack form-narrow">
        <ChoiceField
          label="Order of events"
          value={draft.order}
          choices={orders}
          onChoice={(order) => set({ order })}
        />
        {draft.order === 'field' && (
          <TextField
            label="Where the value is"
            value={draft.orderBy}
            problem={problems['delivery.order_by']}
            hint="A path into the event, such as data.object.user_id or /data/object/user_id"
            input={{ maxLength: 256 }}
            onText={(orderBy) => set({ orderBy })}
          />
        )}
        {draft.order !== 'none' && (
          <ChoiceField
            label="After a failure"
            value={draft.blocks ? 'block' : 'continue'}
            choices={afterFailure}
            problem={problems['delivery.on_failure']}
            onChoice={(choice) => set({ blocks: choice === 'block' })}
          />
        )}
      </div>
    </Panel>
  );
}

const signatures = {
  '': 'With the secret of the stream (v1)',
  v1a: 'With the key of the tenant (v1a)',
  'v1 v1a': 'With both',
} as const satisfies Record<StreamDraft['signature'], string>;

/** How requests are made. */
export function RequestForm({ draft, set, problems }: FormProps) {
  return (
    <Panel title="Requests">
      <div class="stack form-narrow">
        <div class="columns-3">
          <TextField
            label="Attempts per second"
            value={draft.perSecond}
            problem={problems['delivery.per_second']}
            hint="0.1 to 10000; empty for no limit"
            input={{ inputMode: 'decimal' }}
            onText={(perSecond) => set({ perSecond })}
          />
          <TextField
            label="Attempts at once"
            value={draft.concurrency}
            problem={problems['delivery.concurrency']}
            hint="At most LEAT_STREAM_CONCURRENCY, which holds if this is empty"
            input={{ inputMode: 'numeric' }}
            onText={(concurrency) => set({ concurrency })}
          />
          <TextField
            label="Timeout, ms"
            value={draft.timeout}
            problem={problems['delivery.timeout_ms']}
            hint="1000 to 30000; empty for LEAT_ATTEMPT_TIMEOUT_MS"
            input={{ inputMode: 'numeric' }}
            onText={(timeout) => set({ timeout })}
          />
        </div>
        <ChoiceField
          label="Signature"
          value={draft.signature}
          choices={signatures}
          problem={problems['delivery.signature']}
          onChoice={(signature) => set({ signature })}
        />
        <Headers {...{ draft, set, problems }} />
      </div>
    </Panel>
  );
}

function Headers({ draft: { headers }, set, problems }: FormProps) {
  const change = (index: number, header: HeaderDraft): void =>
    set({ headers: headers.with(index, header) });
  return (
    <fieldset class="stack-tight" data-items>
      <legend>Headers of every request</legend>
      {headers.map((header, index) => (
        // Headers may have the same name while they are typed.
        <div key={index} class="header-row" role="group" aria-label={`Header ${index + 1}`}>
          <input
            aria-label={`Name of header ${index + 1}`}
            value={header.name}
            placeholder="X-Environment"
            spellcheck={false}
            autocomplete="off"
            {...(problems['delivery.headers'] === undefined
              ? {}
              : { 'aria-invalid': 'true' as const })}
            onInput={({ currentTarget }) => change(index, { ...header, name: currentTarget.value })}
          />
          <input
            aria-label={`Value of header ${index + 1}`}
            value={header.value}
            placeholder="production"
            spellcheck={false}
            autocomplete="off"
            onInput={({ currentTarget }) =>
              change(index, { ...header, value: currentTarget.value })
            }
          />
          <button
            type="button"
            class="button plain icon"
            aria-label={`Remove header ${index + 1}`}
            onClick={(event) => {
              focusAdding(event);
              set({ headers: headers.toSpliced(index, 1) });
            }}
          >
            <Icon name="close" size={14} />
          </button>
        </div>
      ))}
      <ProblemText problem={problems['delivery.headers']} />
      <div>
        <button
          type="button"
          class="button"
          data-adds
          onClick={() => set({ headers: [...headers, { name: '', value: '' }] })}
        >
          Add a header
        </button>
      </div>
      <span class="meta">They are not secret: everybody who may read the stream sees them.</span>
    </fieldset>
  );
}
