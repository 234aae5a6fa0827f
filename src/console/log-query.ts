import { quoted } from './command.ts';
import { type AddressParameters, eventQueryOf, requestOf } from './event-query.ts';

/** Returns the query of `GET /logs`; windows begin at a full minute, so that it is the same for a while. */
export function logQuery(
  parameters: AddressParameters,
  presentMs: number,
): Record<string, string | undefined> {
  const minute = Math.floor(presentMs / 60_000) * 60_000;
  const { date_from: from, date_to: to } = requestOf(eventQueryOf(parameters), minute);
  return {
    types: parameters.get('types'),
    client_id: parameters.get('client'),
    target: parameters.get('target'),
    date_from: from,
    date_to: to,
  };
}

/** Returns the command that lists the same entries. */
export function logCommand(query: ReturnType<typeof logQuery>): string {
  const options = [
    ['--type', query['types']],
    ['--client', query['client_id']],
    ['--target', query['target']],
    ['--since', query['date_from']],
    ['--until', query['date_to']],
  ] as const;
  const words = options.flatMap(([name, value]) =>
    value === undefined ? [] : [name, quoted(value)],
  );
  return ['leat logs', ...words].join(' ');
}
