import { Panel } from './parts/page.tsx';
import { RetryPicture } from './retry-picture.tsx';
import { delaysSecondsOf, readDelays } from './retry-times.ts';
import { useServiceDelays } from './service-retry.ts';
import type { StreamDraft } from './stream-draft.ts';
import { ChoiceField, type FormProps, TextField } from './stream-form-field.tsx';

const schedules = {
  default: 'That of the service (LEAT_RETRY)',
  quick: 'Quick: within 7 s',
  hours: 'Hours: within about 18 h',
  days: 'Days: within about two and a quarter days',
  own: 'Waits of its own',
} as const satisfies Record<StreamDraft['retry'], string>;

/** When a failed delivery is repeated, with a picture of the times. */
export function RetryForm({ draft, set, problems }: FormProps) {
  const ofService = useServiceDelays(draft.retry === 'default');
  const delays = delaysOf(draft, ofService);
  return (
    <Panel title="Retries">
      <div class="stack">
        <div class="stack form-narrow">
          <ChoiceField
            label="Schedule"
            value={draft.retry}
            choices={schedules}
            onChoice={(retry) => set({ retry })}
          />
          {draft.retry === 'own' && (
            <>
              <TextField
                label="Waits between attempts"
                value={draft.delays}
                problem={problems['delivery.retry']}
                hint="1 to 20 of 1 s to 24 h, such as 5 s, 1 min, 2 h"
                onText={(text) => set({ delays: text })}
              />
              <TextField
                label="4xx responses that are retried"
                value={draft.retry4xx}
                problem={problems['delivery.retry.retry_4xx']}
                hint="Statuses, separated by commas; none for no 4xx; empty for those of LEAT_RETRY_4XX"
                onText={(text) => set({ retry4xx: text })}
              />
            </>
          )}
        </div>
        {delays !== undefined && <RetryPicture delaysSeconds={delays} />}
      </div>
    </Panel>
  );
}

/** Returns the waits to draw; `undefined` where they are not known, or not valid. */
function delaysOf(
  { retry, delays }: StreamDraft,
  ofService: readonly number[] | undefined,
): readonly number[] | undefined {
  if (retry === 'default') return ofService;
  if (retry !== 'own') return delaysSecondsOf(retry);
  const read = readDelays(delays);
  return 'delays' in read ? read.delays : undefined;
}
