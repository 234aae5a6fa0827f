import { deliveryChange, droppedRules } from '../core/delivery-change.ts';
import type { StreamPatchSent, StreamShown } from '../schemas/streams.ts';
import { quoted } from './command.ts';
import { parseKeepingNumbers } from './request.ts';

/** What commands and requests show in place of a secret. */
const hiddenSecret = '…';

const secretNames: ReadonlySet<string> = new Set([
  'password',
  'token',
  'header_value',
  'client_secret',
  'private_key',
]);

/** Returns a change without the secrets that it sends. */
export function withoutSecrets(patch: StreamPatchSent): StreamPatchSent {
  const text = JSON.stringify(patch, (name, value: unknown) =>
    secretNames.has(name) ? hiddenSecret : value,
  );
  return parseKeepingNumbers(text) as StreamPatchSent;
}

/** Returns the command that makes a change of a stored stream; secrets come from files. */
export function updateCommand(
  word: string,
  patch: StreamPatchSent,
  stored: Pick<StreamShown, 'delivery' | 'destination'>,
): string {
  const { name, subscriptions, destination, delivery } = patch;
  const types = subscriptions?.map(({ event_type: type }) => type);
  const words = [
    `leat streams update ${word}`,
    ...(name === undefined ? [] : [`--name ${quoted(name)}`]),
    ...(types === undefined ? [] : [`--events ${quoted(types.join(','))}`]),
    ...(destination === undefined ? [] : destinationWords(destination, stored)),
    ...(delivery === undefined ? [] : deliveryWords(delivery, stored)),
  ];
  return words.join(' \\\n  ');
}

/** The command merges, where a request replaces. */
function deliveryWords(
  sent: NonNullable<StreamPatchSent['delivery']> | null,
  { delivery }: Pick<StreamShown, 'delivery'>,
): string[] {
  const stored = { ...delivery };
  const isAsked = droppedRules(stored, { ...sent }).length > 0;
  const change = JSON.stringify(deliveryChange(stored, sent));
  return [`--delivery ${quoted(change)}`, ...(isAsked ? ['--yes'] : [])];
}

function destinationWords(
  { configuration }: NonNullable<StreamPatchSent['destination']>,
  { destination }: Pick<StreamShown, 'destination'>,
): string[] {
  const { webhook_endpoint: endpoint, client_certificate: certificate } = configuration;
  return [
    `--endpoint ${quoted(endpoint)}`,
    ...authorizationWords(
      configuration.webhook_authorization,
      destination.configuration.webhook_authorization,
    ),
    ...(certificate === null ? ['--remove-certificate'] : []),
    ...(certificate
      ? ['--certificate-file client.pem', '--certificate-key-file client-key.pem']
      : []),
  ];
}

type Authorization = NonNullable<
  StreamPatchSent['destination']
>['configuration']['webhook_authorization'];

/** An authorization whose secret stays needs no option. */
function authorizationWords(
  sent: Authorization,
  stored: StreamShown['destination']['configuration']['webhook_authorization'],
): string[] {
  switch (sent.method) {
    case 'basic':
      return sent.password === undefined
        ? []
        : [`--basic-user ${quoted(sent.username)}`, '--basic-password-file password.txt'];
    case 'bearer':
      return sent.token === undefined ? [] : ['--bearer-file token.txt'];
    case 'custom_header':
      return sent.header_value === undefined
        ? []
        : [`--header ${quoted(sent.header_key)}`, '--header-value-file value.txt'];
    case 'oauth2_client_credentials':
      return sent.client_secret === undefined
        ? []
        : [
            `--token-endpoint ${quoted(sent.token_endpoint)}`,
            `--oauth-client ${quoted(sent.client_id)}`,
            '--oauth-secret-file secret.txt',
            ...tokenWords('--oauth-scope', sent.scope, 'scope' in stored),
            ...tokenWords('--oauth-audience', sent.audience, 'audience' in stored),
          ];
  }
}

/** The command keeps the stored text without the option. */
function tokenWords(option: string, text: string | undefined, isStored: boolean): string[] {
  if (text !== undefined) return [`${option} ${quoted(text)}`];
  return isStored ? [`${option} ''`] : [];
}
