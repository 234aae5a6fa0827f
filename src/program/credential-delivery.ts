import type { Credentials, DeliverCredentials } from '../auth/clients.ts';
import { type Config, dataFolderOf } from '../config.ts';
import { writeCredentials } from '../files/data-folder.ts';
import { print, type ProgramContext } from './context.ts';

export type CredentialDelivery = Record<'management' | 'sample', DeliverCredentials>;

/**
 * Returns how generated credentials reach the operator: printed once on a terminal, else written
 * to a file that only its owner can read. `undefined` without terminal and data folder.
 */
export function credentialDelivery(
  config: Config,
  { stdout, random }: Pick<ProgramContext, 'stdout' | 'random'>,
): CredentialDelivery | undefined {
  if (stdout.isTTY) {
    const show =
      (title: string): DeliverCredentials =>
      async (credentials) =>
        print({ stdout }, shownOnce(title, credentials));
    return {
      management: show('The management client'),
      sample: show('A client for the message API'),
    };
  }
  if (config.store.engine !== 'sqlite') return undefined;
  const folder = dataFolderOf(config);
  return {
    management: (management) => writeCredentials(folder, { management }, random),
    sample: (sample) => writeCredentials(folder, { sample }, random),
  };
}

function shownOnce(title: string, { clientId, clientSecret }: Credentials): string {
  return `${title}, shown this once:\n  id      ${clientId}\n  secret  ${clientSecret}`;
}
