import { meaningOf } from '../core/error-meaning.ts';
import { wordOf } from '../core/stream-word.ts';
import type { Alert, AlertKind, StreamAlertKind, SystemAlertKind } from './alert.ts';
import { isStreamAlert } from './alert.ts';
import { noCauses } from './causes.ts';

/** Why an alert was raised, where to read more, and what to do next; with the names of its JSON. */
export interface Guidance {
  readonly cause: CauseBody;
  /** URL that shows the subject of the alert. */
  readonly link: string;
  /** A command of `leat`, as one types it. */
  readonly next_command: string;
}

export interface CauseBody {
  /** One sentence; of the most frequent code if there is one. */
  readonly meaning: string;
  /** Most frequent first; empty unless deliveries failed. */
  readonly codes: readonly {
    readonly code: string;
    readonly count: number;
    readonly sample?: string;
  }[];
  /** Failures with a code that is not listed; absent for none. */
  readonly other_failures?: number;
}

/** Returns the guidance of an alert. `url` is the public URL of its tenant, with its slash. */
export function guidanceOf(alert: Alert, url: string): Guidance {
  return { cause: causeBody(alert), link: linkOf(alert, url), next_command: nextCommand(alert) };
}

function causeBody(alert: Alert): CauseBody {
  if (!isStreamAlert(alert)) return { meaning: systemMeanings[alert.kind], codes: [] };
  const { codes, others } = alert.causes ?? noCauses;
  const first = alert.reason === 'gone' ? 'http_410' : codes[0]?.code;
  return {
    meaning: first === undefined ? noCodes : meaningOf(first),
    codes: codes.map(({ code, count, sample }) => ({
      code,
      count,
      ...(sample === undefined ? {} : { sample }),
    })),
    ...(others === 0 ? {} : { other_failures: others }),
  };
}

const noCodes = 'The failures have no known cause, or are not open any more.';

const lagMeaning = 'The receiver takes events more slowly than they are published, or not at all.';
const certificateMeaning =
  'The receiver is shown a client certificate, which is valid for a limited time.';

const systemMeanings: Readonly<Record<SystemAlertKind, string>> = {
  lag_near: lagMeaning,
  lag_disabled: lagMeaning,
  certificate_near: certificateMeaning,
  certificate_expired: certificateMeaning,
  clock_skew: 'The time service of a machine does not work.',
  clock_step: 'The clock of the machine was set by hand or by its time service.',
  disk_full: 'The disk, or the quota, of the database has no room left.',
  results_refused: 'The database has settings that Leat does not expect, or refuses a value.',
  node_shortage:
    'The machine or its limits are too small for the load, or its name servers are away; no receiver is at fault.',
  store_went_back: 'The database that took over lacks the last commits of the one before.',
  test: 'Somebody has sent it to see whether alerts arrive.',
};

/** Returns the URL of the page of the console that shows the subject of an alert. */
function linkOf({ kind, stream }: Pick<Alert, 'kind' | 'stream'>, url: string): string {
  return url + paths[kind](encodeURIComponent(stream?.id ?? ''));
}

const failures = (id: string): string => `console/failures?stream=${id}`;
const stream = (id: string): string => `console/streams/${id}`;
const nodes = (): string => 'console/nodes';

const paths: Readonly<Record<AlertKind, (id: string) => string>> = {
  delivery_failures: failures,
  threshold_near: failures,
  stream_disabled: stream,
  lag_near: stream,
  lag_disabled: stream,
  certificate_near: stream,
  certificate_expired: stream,
  results_refused: stream,
  clock_skew: nodes,
  clock_step: nodes,
  node_shortage: nodes,
  disk_full: nodes,
  store_went_back: () => 'console/events',
  test: () => 'console/settings',
};

function nextCommand(alert: Alert): string {
  const name = alert.stream === undefined ? '' : wordOf(alert.stream);
  if (!isStreamAlert(alert)) return systemCommands[alert.kind](name);
  // Enabled with the same endpoint, it would be disabled again.
  if (alert.reason === 'gone') return `leat streams show ${name}`;
  return streamCommands[alert.kind](name, alert.causes?.codes[0]?.code);
}

const failuresOf = (name: string): string => `leat failures --stream ${name}`;
const enableHeld = (name: string): string => `leat streams enable ${name} --resume held`;
const doctor = (): string => 'leat doctor';

const streamCommands: Readonly<
  Record<StreamAlertKind, (name: string, code: string | undefined) => string>
> = {
  delivery_failures: failuresOf,
  threshold_near: (name, code) =>
    code === undefined ? failuresOf(name) : `leat redeliver ${name} --cause ${code} --dry-run`,
  stream_disabled: enableHeld,
};

const systemCommands: Readonly<Record<SystemAlertKind, (name: string) => string>> = {
  lag_near: (name) => `leat streams health ${name}`,
  lag_disabled: enableHeld,
  certificate_near: (name) => `leat streams show ${name}`,
  certificate_expired: (name) => `leat streams show ${name}`,
  results_refused: (name) => `leat streams health ${name}`,
  clock_skew: doctor,
  clock_step: doctor,
  node_shortage: doctor,
  disk_full: doctor,
  store_went_back: doctor,
  test: doctor,
};
