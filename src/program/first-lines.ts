import { resolve } from 'node:path';
import { leatCommand } from '../cli/leat-command.ts';
import { type Config, endsTls } from '../config.ts';
import { generatedCredentialsFile } from './credential-delivery.ts';
import type { Service } from './service.ts';

/**
 * Returns three lines for a shell where the start has generated a client: they log in, create a stream to
 * the receiver inside Leat, and show what arrives there. No line has a secret. None at any other start.
 *
 * @param program the words that start this program
 */
export function firstLinesOf(
  config: Config,
  service: Pick<Service, 'url' | 'consoleUrl' | 'authorityFile' | 'bootstrapped'>,
  program: () => readonly string[],
): readonly string[] {
  const { generated } = service.bootstrapped;
  if (generated === undefined) return [];
  const words = program();
  const leat = leatCommand({ program: words });
  // The login stores the authority for the other two.
  const login = leatCommand({ program: words, ca: absolute(service.authorityFile) });
  const file = absolute(generatedCredentialsFile(config));
  const url = urlFor(config, service);
  return [
    file === undefined
      ? login`login ${url} --client-id ${generated.clientId}`
      : login`login ${url} --credentials-file ${file}`,
    leat`streams create --name first --events user.created --inspect`,
    leat`test first --inspect`,
  ];
}

/** The lines are pasted into a shell in any folder. */
function absolute(file: string | undefined): string | undefined {
  return file === undefined ? undefined : resolve(file);
}

/** A certificate of the operator names the domain of the tenant, and hardly a loopback address. */
function urlFor(config: Config, { url, consoleUrl }: Pick<Service, 'url' | 'consoleUrl'>): string {
  const hasCertificate = endsTls(config) && config.tls === undefined;
  return hasCertificate ? new URL(consoleUrl).origin : url;
}
