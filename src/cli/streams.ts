import { type Command, Option } from 'commander';
import { printable } from '../core/setting.ts';
import type { StreamShown } from '../schemas/streams.ts';
import { pathOf } from './http/api-client.ts';
import {
  type ApiRun,
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  show,
  withCommonOptions,
} from './command.ts';
import { confirmed } from './confirm.ts';
import {
  changedDestination,
  type DestinationOptions,
  newDestination,
  withDestinationOptions,
} from './destination.ts';
import { usageError } from './errors.ts';
import { writeJson } from './json.ts';
import { listOption } from './option.ts';
import { allStreams, findStream, streamIdOf } from './stream.ts';
import { type Column, pairLines, shortTime, tableLines } from './terminal/table.ts';
import type { Paint } from './terminal/terminal.ts';

interface StreamOptions extends CommonOptions, DestinationOptions {
  readonly name?: string;
  readonly events?: readonly string[];
}

interface CreateOptions extends StreamOptions {
  readonly disabled?: boolean;
  readonly startFrom?: string;
}

/** `leat streams …` */
export function addStreamCommands(streams: Command, deps: CliDeps): void {
  addReading(streams, deps);
  addWriting(streams, deps);
  addSwitching(streams, deps);
}

function addReading(streams: Command, deps: CliDeps): void {
  withCommonOptions(streams.command('list'))
    .description('list the event streams, oldest first')
    .addHelpText('after', examples('leat streams list', 'leat streams list --json | jq -r .[].id'))
    .action((options: CommonOptions) => runWithApi(deps, options, listStreams));
  withCommonOptions(streams.command('show <stream>'))
    .description('show one event stream, named by its id or its name')
    .addHelpText('after', examples('leat streams show crm', 'leat streams show est_… --json'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        const id = await streamIdOf(run.api, stream);
        const answer = await run.api.send({ method: 'GET', path: pathOf`/event-streams/${id}` });
        showStream(run, answer);
      }),
    );
  withCommonOptions(streams.command('secret <stream>'))
    .description('print the secret that its requests are signed with')
    .option('--rotate', 'make a new one first; the old one stays valid for 24 hours')
    .addHelpText('after', examples('leat streams secret crm', 'leat streams secret crm --rotate'))
    .action((stream: string, options: CommonOptions & { rotate?: boolean }) =>
      runWithApi(deps, options, (run) => showSecret(run, stream, options.rotate === true)),
    );
}

function addWriting(streams: Command, deps: CliDeps): void {
  withDestinationOptions(withCommonOptions(streams.command('create')))
    .description('create an event stream')
    .option('--name <name>', 'its name; by default its id')
    .option('--events <types>', 'event types with commas between', listOption)
    .option('--disabled', 'do not send anything yet')
    .option('--start-from <where>', 'now (the default), an offset or a date')
    .addHelpText(
      'after',
      examples(
        'leat streams create --name crm --events user.created,user.deleted \\\n    --endpoint https://crm.example.com/hook --bearer-file token.txt',
        'leat streams create --endpoint https://a.example.com/ --events order.paid \\\n    --basic-user leat --basic-password-file password.txt --start-from 2026-03-01T00:00:00Z',
      ),
    )
    .action((options: CreateOptions) =>
      runWithApi(deps, options, (run) => createStream(run, options)),
    );
  withDestinationOptions(withCommonOptions(streams.command('update <stream>')))
    .description('change the name, the event types or the destination of a stream')
    .option('--name <name>', 'its new name')
    .option('--events <types>', 'all its event types from now on', listOption)
    .addHelpText(
      'after',
      examples(
        'leat streams update crm --events user.created,user.updated',
        'leat streams update crm --endpoint https://crm.example.com/new --bearer-file token.txt',
      ),
    )
    .action((stream: string, options: StreamOptions) =>
      runWithApi(deps, options, (run) => updateStream(run, stream, options)),
    );
  withCommonOptions(streams.command('delete <stream>'))
    .description('delete a stream with its failures and waiting deliveries')
    .option('--yes', 'do not ask')
    .addHelpText('after', examples('leat streams delete crm', 'leat streams delete est_… --yes'))
    .action((stream: string, options: CommonOptions & { yes?: boolean }) =>
      runWithApi(deps, options, (run) => deleteStream(run, stream, options.yes)),
    );
}

function addSwitching(streams: Command, deps: CliDeps): void {
  withCommonOptions(streams.command('enable <stream>'))
    .description('send events again')
    .addOption(
      new Option('--resume <where>', 'held: also send the events of the disabled time')
        .choices(['latest', 'held'])
        .default('latest'),
    )
    .addHelpText(
      'after',
      examples('leat streams enable crm', 'leat streams enable crm --resume held'),
    )
    .action((stream: string, options: CommonOptions & { resume: string }) =>
      runWithApi(deps, options, (run) => enableStream(run, stream, options.resume)),
    );
  withCommonOptions(streams.command('disable <stream>'))
    .description('send nothing until it is enabled again')
    .addHelpText('after', examples('leat streams disable crm'))
    .action((stream: string, options: CommonOptions) =>
      runWithApi(deps, options, async (run) => {
        showStream(run, await patchStream(run, stream, { status: 'disabled' }));
      }),
    );
}

async function listStreams({ api, terminal, json }: ApiRun): Promise<void> {
  const streams = await allStreams(api);
  if (json) return terminal.print(writeJson(streams));
  for (const line of tableLines(columns, streams, terminal)) terminal.print(line);
  if (streams.length === 0) {
    terminal.note('There is none yet: leat streams create --help shows how one is made.');
  }
}

async function createStream(run: ApiRun, options: CreateOptions): Promise<void> {
  const { name, events, disabled, startFrom } = options;
  const body = {
    destination: await newDestination(options, run.terminal),
    ...(name === undefined ? {} : { name }),
    ...(events === undefined ? {} : { subscriptions: subscriptionsOf(events) }),
    ...(disabled === true ? { status: 'disabled' } : {}),
    ...(startFrom === undefined ? {} : { start_from: startFrom }),
  };
  const answer = await run.api.send({ method: 'POST', path: '/event-streams', body });
  showStream(run, answer);
  if (events === undefined) {
    run.terminal.note('It has no event types yet: leat streams update <stream> --events <types>');
  }
}

async function updateStream(run: ApiRun, stream: string, options: StreamOptions): Promise<void> {
  const { name, events } = options;
  const destination = await changedDestination(options, run.terminal, () =>
    findStream(run.api, stream),
  );
  const body = {
    ...(destination === undefined ? {} : { destination }),
    ...(name === undefined ? {} : { name }),
    ...(events === undefined ? {} : { subscriptions: subscriptionsOf(events) }),
  };
  if (Object.keys(body).length === 0) {
    throw usageError('Nothing to change: add --name, --events, --endpoint or an authorization.');
  }
  showStream(run, await patchStream(run, stream, body));
}

async function enableStream(run: ApiRun, stream: string, resume: string): Promise<void> {
  // The member is an extension of Leat; without it any server of this API understands the request.
  const body = { status: 'enabled', ...(resume === 'latest' ? {} : { resume }) };
  const answer = await patchStream(run, stream, body);
  showStream(run, answer);
  const skipped = Number(answer.headers['leat-skipped-events'] ?? 0);
  if (skipped > 0) {
    run.terminal.note(
      `${skipped} event${skipped === 1 ? '' : 's'} of the disabled time will not be sent; leat replay start sends them.`,
    );
  }
}

async function deleteStream(run: ApiRun, stream: string, yes: boolean | undefined): Promise<void> {
  const { api, terminal, json } = run;
  const question = async (): Promise<string> => {
    const { id, name } = await findStream(api, stream);
    return `Delete ${printable(name)} (${printable(id)}) with its failures and waiting deliveries?`;
  };
  // Where nobody is asked nobody needs the name: deleting twice succeeds twice.
  const text = yes === true || !terminal.interactive ? '' : await question();
  if (!(await confirmed(run, text, yes))) return;
  const id = await streamIdOf(api, stream);
  await api.send({ method: 'DELETE', path: pathOf`/event-streams/${id}` });
  if (!json) terminal.print(`Deleted ${printable(id)}.`);
}

async function showSecret(run: ApiRun, stream: string, rotate: boolean): Promise<void> {
  const id = await streamIdOf(run.api, stream);
  const path = pathOf`/event-streams/${id}/signing-secret`;
  const answer = rotate
    ? await run.api.send({ method: 'POST', path: `${path}/rotate` })
    : await run.api.send({ method: 'GET', path });
  const { secret } = Object(answer.body) as { secret?: unknown };
  show(run, answer.text, () => [printable(String(secret))]);
}

async function patchStream({ api }: ApiRun, stream: string, body: object) {
  const id = await streamIdOf(api, stream);
  return api.send({ method: 'PATCH', path: pathOf`/event-streams/${id}`, body });
}

function subscriptionsOf(events: readonly string[]): { readonly event_type: string }[] {
  return events.map((type) => ({ event_type: type }));
}

function showStream(run: ApiRun, answer: { readonly text: string; readonly body: unknown }): void {
  show(run, answer.text, () => streamLines(answer.body as StreamShown, run.terminal.paint));
}

function streamLines(stream: StreamShown, paint: Paint): string[] {
  const { webhook_endpoint: endpoint, webhook_authorization: authorization } =
    stream.destination.configuration;
  const whom = { basic: 'username', bearer: '', custom_header: 'header_key' }[authorization.method];
  const detail = (authorization as Record<string, string | undefined>)[whom];
  const lines = pairLines(
    [
      ['Id', stream.id],
      ['Name', stream.name],
      ['Status', stream.status],
      ['Events', stream.subscriptions.map((each) => each.event_type).join(', ') || 'none'],
      ['Endpoint', endpoint],
      [
        'Authorization',
        detail === undefined ? authorization.method : `${authorization.method} (${detail})`,
      ],
      ['Created', shortTime(stream.created_at)],
      ['Updated', shortTime(stream.updated_at)],
    ],
    paint,
  );
  const status = stream.status === 'enabled' ? 'green' : 'yellow';
  return lines.map((line, index) => (index === 2 ? paint(status, line) : line));
}

const columns: readonly Column<StreamShown>[] = [
  { header: 'ID', text: ({ id }) => id },
  { header: 'NAME', text: ({ name }) => name, cuttable: true },
  {
    header: 'STATUS',
    text: ({ status }) => status,
    format: ({ status }) => (status === 'enabled' ? 'green' : 'yellow'),
  },
  {
    header: 'EVENTS',
    text: ({ subscriptions }) => subscriptions.map((each) => each.event_type).join(','),
    cuttable: true,
  },
  {
    header: 'ENDPOINT',
    text: ({ destination }) => destination.configuration.webhook_endpoint,
    cuttable: true,
  },
  { header: 'UPDATED', text: ({ updated_at: time }) => shortTime(time) },
];
