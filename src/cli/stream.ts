import { nameForm } from '../core/name.ts';
import { printable } from '../core/setting.ts';
import type { StreamShown } from '../schemas/streams.ts';
import { type ApiRun, show } from './command.ts';
import { CommandFailed, exitCodes } from './errors.ts';
import { type ApiClient, type ApiResponse, pathOf } from './http/api-client.ts';
import { allPages } from './http/pages.ts';
import { pairLines, shortTime } from './terminal/table.ts';
import type { Paint } from './terminal/terminal.ts';

/** Returns every event stream, oldest first. */
export function allStreams(api: ApiClient): Promise<StreamShown[]> {
  return allPages<StreamShown>(api, '/event-streams', 'eventStreams');
}

/** What it takes to find a stream, or to say where the existing ones are listed. */
type StreamsRun = Pick<ApiRun, 'api' | 'leat'>;

/** Returns the id of a stream, looked up by name if necessary. */
export async function streamIdOf(run: StreamsRun, idOrName: string): Promise<string> {
  return isStreamId(idOrName) ? idOrName : (await streamNamed(run, idOrName)).id;
}

/** Returns a stream by id or name. Throws {@link CommandFailed} when there is none. */
export async function findStream(run: StreamsRun, idOrName: string): Promise<StreamShown> {
  if (!isStreamId(idOrName)) return streamNamed(run, idOrName);
  const response = await run.api.send({ method: 'GET', path: pathOf`/event-streams/${idOrName}` });
  return response.body as StreamShown;
}

function isStreamId(text: string): boolean {
  return /^est_[A-Za-z0-9]{22}$/.test(text);
}

async function streamNamed({ api, leat }: StreamsRun, name: string): Promise<StreamShown> {
  const streams = await allStreams(api);
  const found =
    streams.find((stream) => stream.name === name) ??
    streams.find((stream) => nameForm(stream.name) === nameForm(name));
  if (found !== undefined) return found;
  throw new CommandFailed(
    exitCodes.notFound,
    `No event stream has the id or the name "${printable(name)}": ${leat`streams list`} shows them.`,
  );
}

/** Changes a stream, given by id or name. */
export async function patchStream(
  run: StreamsRun,
  stream: string,
  body: object,
): Promise<ApiResponse> {
  const id = await streamIdOf(run, stream);
  return run.api.send({ method: 'PATCH', path: pathOf`/event-streams/${id}`, body });
}

/** Prints a stream of a response. */
export function showStream(
  run: ApiRun,
  response: { readonly text: string; readonly body: unknown },
): void {
  show(run, response.text, () => streamLines(response.body as StreamShown, run.terminal.paint));
}

function streamLines(stream: StreamShown, paint: Paint): string[] {
  const { webhook_endpoint: endpoint, webhook_authorization: authorization } =
    stream.destination.configuration;
  const field = {
    basic: 'username',
    bearer: '',
    custom_header: 'header_key',
    oauth2_client_credentials: 'client_id',
  }[authorization.method];
  const detail = (authorization as Record<string, string | undefined>)[field];
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
      ['Delivery', stream.delivery && JSON.stringify(stream.delivery)],
      ...certificateLines(stream),
      ['Created', shortTime(stream.created_at)],
      ['Updated', shortTime(stream.updated_at)],
    ],
    paint,
  );
  const status = stream.status === 'enabled' ? 'green' : 'yellow';
  return lines.map((line, index) => (index === 2 ? paint(status, line) : line));
}

function certificateLines({ destination }: StreamShown): [string, string][] {
  const { client_certificate: certificate } = destination.configuration;
  if (certificate === undefined) return [];
  return [['Certificate', `expires ${shortTime(certificate.expires_at)}`]];
}
