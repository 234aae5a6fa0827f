import { printable } from '../core/setting.ts';
import { usageError } from './errors.ts';
import { fileOption } from './option.ts';
import type { Terminal } from './terminal/terminal.ts';

/** A client and its secret. */
export interface ClientCredentials {
  readonly clientId: string;
  readonly clientSecret: string;
}

const option = '--credentials-file';

/**
 * Reads a client and its secret from a file like the `bootstrap.json` of a first start. Throws
 * {@link CommandFailed} when the file cannot be read, and a usage error when it holds something else.
 */
export async function credentialsOption(
  file: string,
  terminal: Terminal,
): Promise<ClientCredentials> {
  const credentials = credentialsIn(await fileOption(option, file, terminal));
  if (credentials !== undefined) return credentials;
  throw usageError(
    `${option}: ${printable(file)} has no client_id and client_secret; a first start writes such a file: bootstrap.json in the data folder.`,
  );
}

function credentialsIn(text: string): ClientCredentials | undefined {
  try {
    const fields = Object(JSON.parse(text)) as Record<string, unknown>;
    const { client_id: clientId, client_secret: clientSecret } = fields;
    if (typeof clientId !== 'string' || typeof clientSecret !== 'string') return undefined;
    return clientId === '' || clientSecret === '' ? undefined : { clientId, clientSecret };
  } catch {
    return undefined;
  }
}
