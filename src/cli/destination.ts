import type { Command } from 'commander';
import type { DestinationSent, StreamShown } from '../schemas/streams.ts';
import { inspectorEndpointOf, newInspectorEndpoint } from '../core/inspector.ts';
import { usageError } from './errors.ts';
import { secretOption } from './option.ts';
import type { Terminal } from './terminal/terminal.ts';

/** The options of an endpoint and its authorization. */
export interface DestinationOptions {
  readonly endpoint?: string;
  readonly inspect?: boolean;
  readonly bearerFile?: string;
  readonly basicUser?: string;
  readonly basicPasswordFile?: string;
  readonly header?: string;
  readonly headerValueFile?: string;
  readonly tokenEndpoint?: string;
  readonly oauthClient?: string;
  readonly oauthSecretFile?: string;
  readonly oauthScope?: string;
  readonly oauthAudience?: string;
  readonly certificateFile?: string;
  readonly certificateKeyFile?: string;
  readonly removeCertificate?: boolean;
}

type Authorization = DestinationSent['configuration']['webhook_authorization'];

/** Adds the options of a destination. Secrets come from files: other users can see arguments. */
export function withDestinationOptions(command: Command): Command {
  return command
    .option('--endpoint <url>', 'URL that events are posted to')
    .option(
      '--inspect',
      'instead: a receiver inside Leat, which leat test <stream> --inspect shows',
    )
    .option('--bearer-file <file>', 'authorize with the bearer token in a file (- for stdin)')
    .option('--basic-user <name>', 'authorize with a user name and a password')
    .option('--basic-password-file <file>', 'file with the password (- for stdin)')
    .option('--header <name>', 'authorize with a custom header')
    .option('--header-value-file <file>', 'file with the value of the header (- for stdin)')
    .option('--token-endpoint <url>', 'authorize with access tokens from this OAuth 2.0 endpoint')
    .option('--oauth-client <id>', 'client id for the token endpoint')
    .option('--oauth-secret-file <file>', 'file with the client secret (- for stdin)')
    .option(
      '--oauth-scope <scopes>',
      'scopes of the tokens, separated by spaces; an update without it keeps them',
    )
    .option(
      '--oauth-audience <audience>',
      'API that the tokens are for; an update without it keeps it',
    )
    .option('--certificate-file <file>', 'client certificate and its chain for TLS, in PEM')
    .option('--certificate-key-file <file>', 'its private key in PEM (- for stdin)');
}

/** Returns the destination of a new stream. Throws a usage error when an option is missing. */
export async function newDestination(
  options: DestinationOptions,
  terminal: Terminal,
): Promise<DestinationSent> {
  const endpoint = endpointOf(options, newInspectorEndpoint);
  if (endpoint === undefined) {
    throw usageError('No endpoint: add --endpoint <url>, or --inspect for a receiver inside Leat.');
  }
  const authorization = await authorizationOf(options, terminal);
  const certificate = await certificateOf(options, terminal);
  if (authorization !== undefined) return destinationOf(endpoint, authorization, certificate);
  throw usageError(
    'No authorization: add --bearer-file <file>, or --basic-user <name> with ' +
      '--basic-password-file <file>, or --header <name> with --header-value-file <file>, or ' +
      '--token-endpoint <url> with --oauth-client <id> and --oauth-secret-file <file>.',
  );
}

/**
 * Returns the destination of a stream after a change, `undefined` when the options do not change it.
 * An authorization that stays is sent without its secret, which the server has; it rejects the
 * request when it needs the secret again.
 */
export async function changedDestination(
  options: DestinationOptions,
  terminal: Terminal,
  present: () => Promise<StreamShown>,
): Promise<DestinationSent | undefined> {
  const authorization = await authorizationOf(options, terminal);
  const certificate = await certificateOf(options, terminal);
  const hasEndpoint = (options.endpoint ?? options.inspect) !== undefined;
  if (!hasEndpoint && authorization === undefined && certificate === undefined) return undefined;
  const { id, destination } = await present();
  const stored = destination.configuration;
  return destinationOf(
    endpointOf(options, inspectorEndpointOf(id)) ?? stored.webhook_endpoint,
    authorization === undefined
      ? stored.webhook_authorization
      : withStoredTokenOptions(authorization, stored.webhook_authorization),
    certificate,
  );
}

/** A new client secret leaves scope and audience of the tokens as they are; an empty one removes it. */
function withStoredTokenOptions(
  sent: Authorization,
  stored: StreamShown['destination']['configuration']['webhook_authorization'],
): Authorization {
  const method = 'oauth2_client_credentials';
  if (sent.method !== method || stored.method !== method) return sent;
  const { scope = stored.scope, audience = stored.audience, ...required } = sent;
  return {
    ...required,
    ...(scope === undefined || scope === '' ? {} : { scope }),
    ...(audience === undefined || audience === '' ? {} : { audience }),
  };
}

function endpointOf(
  { endpoint, inspect }: DestinationOptions,
  inspector: string,
): string | undefined {
  if (inspect !== true) return endpoint;
  if (endpoint !== undefined) throw usageError('Choose one of --endpoint and --inspect.');
  return inspector;
}

type Certificate = DestinationSent['configuration']['client_certificate'];

function destinationOf(
  endpoint: string,
  authorization: Authorization,
  certificate: Certificate,
): DestinationSent {
  const configuration = { webhook_endpoint: endpoint, webhook_authorization: authorization };
  if (certificate === undefined) return { type: 'webhook', configuration };
  return { type: 'webhook', configuration: { ...configuration, client_certificate: certificate } };
}

/** Returns the certificate to send: `undefined` for the present one, null for none. */
async function certificateOf(
  { certificateFile, certificateKeyFile, removeCertificate }: DestinationOptions,
  terminal: Terminal,
): Promise<Certificate> {
  requireBoth('--certificate-file', certificateFile, '--certificate-key-file', certificateKeyFile);
  if (removeCertificate === true) {
    if (certificateFile === undefined) return null;
    throw usageError('Choose one of --certificate-file and --remove-certificate.');
  }
  if (certificateFile === undefined || certificateKeyFile === undefined) return undefined;
  return {
    certificate: await secretOption('--certificate-file', certificateFile, terminal),
    private_key: await secretOption('--certificate-key-file', certificateKeyFile, terminal),
  };
}

async function authorizationOf(
  options: DestinationOptions,
  terminal: Terminal,
): Promise<Authorization | undefined> {
  const { inspect, bearerFile, basicUser, basicPasswordFile, header, headerValueFile } = options;
  requireBoth('--basic-user', basicUser, '--basic-password-file', basicPasswordFile);
  requireBoth('--header', header, '--header-value-file', headerValueFile);
  requireClient(options);
  const methods = [bearerFile, basicUser, header, options.tokenEndpoint];
  if (methods.filter((method) => method !== undefined).length > 1) {
    throw usageError('Choose one of --bearer-file, --basic-user, --header and --token-endpoint.');
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
  // Nothing leaves Leat, and the inspector does not show it.
  if (inspect === true && methods.every((method) => method === undefined)) {
    return { method: 'bearer', token: 'inspector' };
  }
  return clientOf(options, terminal);
}

async function clientOf(
  { tokenEndpoint, oauthClient, oauthSecretFile, oauthScope, oauthAudience }: DestinationOptions,
  terminal: Terminal,
): Promise<Authorization | undefined> {
  if (tokenEndpoint === undefined || oauthClient === undefined || oauthSecretFile === undefined) {
    return undefined;
  }
  return {
    method: 'oauth2_client_credentials',
    token_endpoint: tokenEndpoint,
    client_id: oauthClient,
    client_secret: await secretOption('--oauth-secret-file', oauthSecretFile, terminal),
    ...(oauthScope === undefined ? {} : { scope: oauthScope }),
    ...(oauthAudience === undefined ? {} : { audience: oauthAudience }),
  };
}

function requireClient(options: DestinationOptions): void {
  const { tokenEndpoint, oauthClient, oauthSecretFile, oauthScope, oauthAudience } = options;
  const given = [tokenEndpoint, oauthClient, oauthSecretFile, oauthScope, oauthAudience];
  if (given.every((option) => option === undefined)) return;
  for (const [name, option] of [
    ['--token-endpoint', tokenEndpoint],
    ['--oauth-client', oauthClient],
    ['--oauth-secret-file', oauthSecretFile],
  ]) {
    if (option === undefined) {
      throw usageError(
        `${name} is missing: access tokens need --token-endpoint, --oauth-client and --oauth-secret-file.`,
      );
    }
  }
}

function requireBoth(
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
