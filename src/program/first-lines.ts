import { resolve } from 'node:path';
import { leatCommand } from '../cli/leat-command.ts';
import { credentialsFile, type Profiles, readProfiles } from '../cli/http/credentials.ts';
import { nameBesides } from '../cli/profile-name.ts';
import { type Config, endsTls, loadCliEnv } from '../config.ts';
import { generatedCredentialsFile } from './credential-delivery.ts';
import { wordsOfThisProgram } from './leat-word.ts';
import type { Service } from './service.ts';

/**
 * Returns three lines for a shell where the start has generated a client: they log in, create a stream to
 * the receiver inside Leat, and show what arrives there. No line has a secret, and none replaces a login
 * of this user for another server. None at any other start.
 */
export async function firstLinesOf(
  config: Config,
  service: Pick<Service, 'url' | 'consoleUrl' | 'authorityFile' | 'bootstrapped'>,
): Promise<readonly string[]> {
  const { generated } = service.bootstrapped;
  if (generated === undefined) return [];
  const url = urlFor(config, service);
  const program = wordsOfThisProgram();
  const profile = nameBesides(await presentLogins(), url);
  const leat = leatCommand({ program, profile });
  // The login stores the authority for the other two.
  const login = leatCommand({ program, profile, ca: absolute(service.authorityFile) });
  const file = absolute(generatedCredentialsFile(config));
  return [
    file === undefined
      ? login`login ${url} --client-id ${generated.clientId}`
      : login`login ${url} --credentials-file ${file}`,
    leat`streams create --name first --events user.created --inspect`,
    leat`test first --inspect`,
  ];
}

/** Logins that cannot be read are those of another user, or the login reports what is wrong with them. */
async function presentLogins(): Promise<Profiles> {
  try {
    return await readProfiles(credentialsFile(loadCliEnv().configHome));
  } catch {
    return {};
  }
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
