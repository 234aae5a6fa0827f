import type { Credentials, DeliverCredentials } from '../auth/clients.ts';
import { type Config, dataFolderOf } from '../config.ts';
import { credentialsFile, writeCredentials } from '../files/data-folder.ts';
import { print, type ProgramContext } from './context.ts';

export type CredentialDelivery = Record<'management' | 'sample', DeliverCredentials>;

/**
 * Returns how generated credentials reach the operator: printed once on a terminal, and written to
 * {@link generatedCredentialsFile}. `undefined` where neither is possible.
 */
export function credentialDelivery(
  config: Config,
  { stdout, random }: Pick<ProgramContext, 'stdout' | 'random'>,
): CredentialDelivery | undefined {
  const hasFile = generatedCredentialsFile(config) !== undefined;
  if (!stdout.isTTY && !hasFile) return undefined;
  const deliver =
    (client: keyof CredentialDelivery, title: string): DeliverCredentials =>
    async (credentials) => {
      if (hasFile) await writeCredentials(dataFolderOf(config), { [client]: credentials }, random);
      if (stdout.isTTY) print({ stdout }, shownOnce(title, credentials));
    };
  return {
    management: deliver('management', 'The management client'),
    sample: deliver('sample', 'A client for the message API'),
  };
}

/**
 * Returns the path of the file that only its owner can read, into which generated credentials are
 * written; `undefined` with PostgreSQL, which has no data folder of its own. Also on a terminal: the
 * first commands log in from it, so that no secret is in the history of a shell or in the arguments of a
 * process (docs/adr/0052-first-lines-without-a-secret.md).
 */
export function generatedCredentialsFile(config: Config): string | undefined {
  return config.store.engine === 'sqlite' ? credentialsFile(dataFolderOf(config)) : undefined;
}

function shownOnce(title: string, { clientId, clientSecret }: Credentials): string {
  return `${title}, shown this once:\n  id      ${clientId}\n  secret  ${clientSecret}`;
}
