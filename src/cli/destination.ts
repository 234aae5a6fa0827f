import type { Command } from 'commander';
import type { DestinationSent, StreamShown } from '../schemas/streams.ts';
import { usageError } from './errors.ts';
import { secretOption } from './option.ts';
import type { Terminal } from './terminal/terminal.ts';

/** How an endpoint and its authorization are said on the command line. */
export interface DestinationOptions {
  readonly endpoint?: string;
  readonly bearerFile?: string;
  readonly basicUser?: string;
  readonly basicPasswordFile?: string;
  readonly header?: string;
  readonly headerValueFile?: string;
}

type Authorization = DestinationSent['configuration']['webhook_authorization'];

/** Gives a command the options of a destination. Secrets come from files: others see arguments. */
export function withDestinationOptions(command: Command): Command {
  return command
    .option('--endpoint <url>', 'where events are posted to')
    .option('--bearer-file <file>', 'authorize by a bearer token, read from a file (- for stdin)')
    .option('--basic-user <name>', 'authorize by a user name and a password')
    .option('--basic-password-file <file>', 'the password (- for stdin)')
    .option('--header <name>', 'authorize by a header of your own')
    .option('--header-value-file <file>', 'its value (- for stdin)');
}

/** The destination of a new stream. Throws a usage error when something is missing. */
export async function newDestination(
  options: DestinationOptions,
  terminal: Terminal,
): Promise<DestinationSent> {
  const { endpoint } = options;
  if (endpoint === undefined) throw usageError('Where are events posted to? Add --endpoint <url>.');
  const authorization = await authorizationOf(options, terminal);
  if (authorization !== undefined) return destinationOf(endpoint, authorization);
  throw usageError(
    'How are requests authorized? Add --bearer-file <file>, or --basic-user <name> with ' +
      '--basic-password-file <file>, or --header <name> with --header-value-file <file>.',
  );
}

/**
 * The destination that a stream has after a change; `undefined` when the options change nothing of
 * it. The server knows the secret of an authorization that stays, and says when it needs it again.
 */
export async function changedDestination(
  options: DestinationOptions,
  terminal: Terminal,
  now: () => Promise<StreamShown>,
): Promise<DestinationSent | undefined> {
  const authorization = await authorizationOf(options, terminal);
  if (options.endpoint === undefined && authorization === undefined) return undefined;
  const { configuration } = (await now()).destination;
  return destinationOf(
    options.endpoint ?? configuration.webhook_endpoint,
    authorization ?? configuration.webhook_authorization,
  );
}

function destinationOf(endpoint: string, authorization: Authorization): DestinationSent {
  const configuration = { webhook_endpoint: endpoint, webhook_authorization: authorization };
  return { type: 'webhook', configuration };
}

async function authorizationOf(
  options: DestinationOptions,
  terminal: Terminal,
): Promise<Authorization | undefined> {
  const { bearerFile, basicUser, basicPasswordFile, header, headerValueFile } = options;
  together('--basic-user', basicUser, '--basic-password-file', basicPasswordFile);
  together('--header', header, '--header-value-file', headerValueFile);
  const ways = [bearerFile, basicUser, header].filter((way) => way !== undefined);
  if (ways.length > 1) {
    throw usageError('Choose one of --bearer-file, --basic-user and --header.');
  }
  if (bearerFile !== undefined) {
    return { method: 'bearer', token: await secretOption('--bearer-file', bearerFile, terminal) };
  }
  if (basicUser !== undefined && basicPasswordFile !== undefined) {
    const password = await secretOption('--basic-password-file', basicPasswordFile, terminal);
    return { method: 'basic', username: basicUser, password };
  }
  if (header !== undefined && headerValueFile !== undefined) {
    const value = await secretOption('--header-value-file', headerValueFile, terminal);
    return { method: 'custom_header', header_key: header, header_value: value };
  }
  return undefined;
}

function together(
  one: string,
  first: string | undefined,
  other: string,
  second: string | undefined,
): void {
  if ((first === undefined) === (second === undefined)) return;
  throw usageError(
    `${first === undefined ? other : one} needs ${first === undefined ? one : other}.`,
  );
}
