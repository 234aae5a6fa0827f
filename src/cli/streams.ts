import type { Command } from 'commander';
import { changedDelivery, type DeliveryFields, droppedRules } from '../core/delivery-change.ts';
import { printable } from '../core/setting.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
  withNumbers,
} from './command.ts';
import { confirmed } from './confirm.ts';
import {
  changedDestination,
  type DestinationOptions,
  newDestination,
  withDestinationOptions,
} from './destination.ts';
import { usageError } from './errors.ts';
import { addFilterTest } from './filter.ts';
import { pathOf } from './http/api-client.ts';
import { type JsonOption, jsonOption, listOption, wholeNumberOption } from './option.ts';
import type { StreamShown } from '../schemas/streams.ts';
import { findStream, patchStream, showStream, streamIdOf } from './stream.ts';
import { addStreamList } from './stream-list.ts';
import { addStatusCommands } from './stream-status.ts';

interface StreamOptions extends CommonOptions, DestinationOptions {
  readonly name?: string;
  readonly events?: readonly string[];
  readonly delivery?: JsonOption;
}

interface UpdateOptions extends StreamOptions {
  readonly yes?: boolean;
}

interface CreateOptions extends StreamOptions {
  readonly disabled?: boolean;
  readonly startFrom?: string;
}

interface SecretOptions extends CommonOptions {
  readonly rotate?: boolean;
  readonly overlap?: number;
  readonly force?: boolean;
}

/** `leat streams …` */
export function addStreamCommands(streams: Command, deps: CliDeps): void {
  addReading(streams, deps);
  addFilterTest(streams, deps);
  addWriting(streams, deps);
  addStatusCommands(streams, deps);
  addRetryNow(streams, deps);
}

function addReading(streams: Command, deps: CliDeps): void {
  addStreamList(streams, deps);
  withCommonOptions(streams.command('show <stream>'))
    .description('show an event stream, by id or name')
    .addHelpText('after', examples('leat streams show crm', 'leat streams show est_… --json'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const id = await streamIdOf(run, stream);
        const response = await run.api.send({ method: 'GET', path: pathOf`/event-streams/${id}` });
        showStream(run, response);
      }),
    );
  withCommonOptions(streams.command('secret <stream>'))
    .description('print the signing secret of a stream')
    .option('--rotate', 'create a new secret first; the former one stays valid for 24 hours')
    .option(
      '--overlap <seconds>',
      'with --rotate: how long the former secret stays valid',
      wholeNumberOption(0, 604_800),
    )
    .option('--force', 'with --rotate: end a secret from an earlier rotation that is still valid')
    .addHelpText(
      'after',
      examples('leat streams secret crm', 'leat streams secret crm --rotate --overlap 604800'),
    )
    .action((stream: string, options: SecretOptions) =>
      runWithApi(deps, options, (run) => showSecret(run, stream, options)),
    );
}

function addWriting(streams: Command, deps: CliDeps): void {
  withDestinationOptions(withCommonOptions(streams.command('create')))
    .description('create an event stream')
    .option('--name <name>', 'name of the stream; default: its id')
    .option('--events <types>', 'event types, separated by commas', listOption)
    .option(
      '--delivery <json>',
      'options of delivery: retry (default: "hours"), per_second, headers, …; null for those of the API',
      jsonOption,
    )
    .option('--disabled', 'create it disabled: it sends nothing until leat streams enable')
    .option('--start-from <where>', 'first event to send: now (default), an offset or a date')
    .addHelpText(
      'after',
      examples(
        'leat streams create --name first --events user.created --inspect',
        'leat streams create --name crm --events user.created,user.deleted \\\n    --endpoint https://crm.example.com/hook --bearer-file token.txt',
        'leat streams create --endpoint https://a.example.com/ --events order.paid \\\n    --basic-user leat --basic-password-file password.txt --start-from 2026-03-01T00:00:00Z',
        'leat streams create --endpoint https://b.example.com/ --events order.paid \\\n    --token-endpoint https://login.example.com/oauth/token --oauth-client leat \\\n    --oauth-secret-file secret.txt --oauth-audience https://b.example.com/',
      ),
    )
    .action((options: CreateOptions) =>
      runWithApi(deps, options, (run) => createStream(run, options)),
    );
  withDestinationOptions(withCommonOptions(streams.command('update <stream>')))
    .description('change the name, the event types, the destination or the delivery of a stream')
    .option('--remove-certificate', 'show no client certificate any more')
    .option('--name <name>', 'new name')
    .option(
      '--events <types>',
      'event types that replace the present ones, separated by commas',
      listOption,
    )
    .option(
      '--delivery <json>',
      'options of delivery to change, the others stay; null removes one, or all',
      jsonOption,
    )
    .option('--yes', 'do not ask before the filter or the order is removed')
    .addHelpText(
      'after',
      examples(
        'leat streams update crm --events user.created,user.updated',
        'leat streams update crm --endpoint https://crm.example.com/new --bearer-file token.txt',
        `leat streams update crm --delivery '{"retry": "hours", "per_second": null}'`,
        'leat streams update crm --certificate-file client.pem --certificate-key-file client-key.pem',
      ),
    )
    .action((stream: string, options: UpdateOptions) =>
      runWithApi(deps, options, (run) => updateStream(run, stream, options)),
    );
  withCommonOptions(streams.command('delete <stream>'))
    .description('delete a stream with its failures and pending deliveries')
    .option('--yes', 'do not ask for confirmation')
    .addHelpText('after', examples('leat streams delete crm', 'leat streams delete est_… --yes'))
    .action((stream: string, options: CommonOptions & { yes?: boolean }) =>
      runWithApi(deps, options, (run) => deleteStream(run, stream, options.yes)),
    );
}

async function createStream(run: ApiRun, options: CreateOptions): Promise<void> {
  const { name, events, delivery, disabled, startFrom } = options;
  const body = {
    destination: await newDestination(options, run.terminal),
    name,
    subscriptions: subscriptionsOf(events),
    delivery: changedDelivery({ retry: 'hours' }, changeOf(delivery ?? { value: {} })),
    status: disabled === true ? 'disabled' : undefined,
    start_from: startFrom,
  };
  const response = await run.api.send({ method: 'POST', path: '/event-streams', body });
  showStream(run, response);
  if (events === undefined) {
    run.terminal.note(
      `The stream has no event types: ${run.leat`streams update <stream> --events <types>`}`,
    );
  }
}

async function updateStream(run: ApiRun, word: string, options: UpdateOptions): Promise<void> {
  const { name, events, delivery } = options;
  // Read once: what is sent must fit what is shown and asked for.
  let reading: Promise<StreamShown> | undefined;
  const present = (): Promise<StreamShown> => (reading ??= findStream(run, word));
  const destination = await changedDestination(options, run.terminal, present);
  if ((destination ?? name ?? events ?? delivery) === undefined) {
    throw usageError(
      'Nothing to change: add --name, --events, --delivery, --endpoint, --inspect or an authorization.',
    );
  }
  const after = delivery && changedDelivery(deliveryOf(await present()), changeOf(delivery));
  if (!(await replaces(run, present, { events, after }, options.yes))) return;
  const body = {
    destination,
    name,
    subscriptions: subscriptionsOf(events),
    delivery: after && (Object.keys(after).length === 0 ? null : after),
  };
  showStream(run, await patchStream(run, reading === undefined ? word : (await reading).id, body));
}

/** What a change puts in the place of a list or an object. */
interface Replacement {
  readonly events: readonly string[] | undefined;
  readonly after: DeliveryFields | undefined;
}

/** Shows what is replaced, and asks before a filter or an order goes, or every event matches the filter. */
async function replaces(
  run: ApiRun,
  present: () => Promise<StreamShown>,
  { events, after }: Replacement,
  yes: boolean | undefined,
): Promise<boolean> {
  if ((events ?? after) === undefined) return true;
  const stream = await present();
  const types = stream.subscriptions.map((each) => each.event_type).join(', ');
  if (events !== undefined) showChange(run, 'Events', types, events.join(', '));
  if (after === undefined) return true;
  const stored = deliveryOf(stream);
  showChange(run, 'Delivery', deliveryText(stored), deliveryText(after));
  const dropped = droppedRules(stored, after);
  if (dropped.length === 0) return true;
  const what = dropped.join(' and ');
  const question = `Remove ${what} of ${printable(stream.name)}?`;
  return confirmed(run, question, yes);
}

function showChange({ terminal }: ApiRun, what: string, before: string, after: string): void {
  if (before === after) return;
  terminal.note(printable(`${what} before: ${before || 'none'}`));
  terminal.note(printable(`${what} after:  ${after || 'none'}`));
}

function deliveryOf({ delivery }: StreamShown): DeliveryFields {
  return { ...delivery };
}

function changeOf({ value }: JsonOption): DeliveryFields | null {
  return value as DeliveryFields | null;
}

function deliveryText(delivery: DeliveryFields): string {
  return Object.keys(delivery).length === 0 ? '' : JSON.stringify(delivery);
}

async function deleteStream(run: ApiRun, stream: string, yes: boolean | undefined): Promise<void> {
  const { api, terminal, json } = run;
  const question = async (): Promise<string> => {
    const { id, name } = await findStream(run, stream);
    return `Delete ${printable(name)} (${printable(id)}) with its failures and pending deliveries?`;
  };
  // Without a question the name is not needed, and deleting a stream twice succeeds.
  const text = yes === true || !terminal.interactive ? '' : await question();
  if (!(await confirmed(run, text, yes))) return;
  const id = await streamIdOf(run, stream);
  await api.send({ method: 'DELETE', path: pathOf`/event-streams/${id}` });
  if (!json) terminal.print(`Deleted ${printable(id)}.`);
}

async function showSecret(run: ApiRun, stream: string, options: SecretOptions): Promise<void> {
  const { rotate, force, overlap } = options;
  if (rotate !== true && (force ?? overlap) !== undefined) {
    throw usageError('--force and --overlap change a rotation: add --rotate.');
  }
  const id = await streamIdOf(run, stream);
  const path = pathOf`/event-streams/${id}/signing-secret`;
  const body = { force, overlap_seconds: overlap };
  const response = rotate
    ? await run.api.send({ method: 'POST', path: `${path}/rotate`, body })
    : await run.api.send({ method: 'GET', path });
  const { secret } = Object(response.body) as { secret?: unknown };
  show(run, response.text, () => [printable(String(secret))]);
}

function subscriptionsOf(events: readonly string[] | undefined): object[] | undefined {
  return events?.map((type) => ({ event_type: type }));
}

/** `leat streams retry-now` */
function addRetryNow(streams: Command, deps: CliDeps): void {
  withCommonOptions(streams.command('retry-now <stream>'))
    .description('retry at once every delivery that waits for a retry')
    .addHelpText('after', examples('leat streams retry-now crm'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, (run) => retryNow(run, stream)),
    );
}

async function retryNow(run: ApiRun, stream: string): Promise<void> {
  const id = await streamIdOf(run, stream);
  const path = pathOf`/event-streams/${id}/retry-now`;
  const response = await run.api.send({ method: 'POST', path });
  const { due } = withNumbers<{ readonly due: number }>(response.body, 'due');
  const text =
    due === 0
      ? 'No delivery waits for a retry.'
      : `${due} ${due === 1 ? 'delivery that waited for its retry is' : 'deliveries that waited for their retries are'} due now.`;
  show(run, response.text, () => [text]);
}
