import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Clock, Millis } from '../core/clock.ts';
import { codeOf, StartRefused } from '../core/errors.ts';
import { printable, problemLine, type Setting } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import type { Identity } from './x509.ts';

/** Where the operator keeps a certificate and its key: LEAT_TLS_CERT and LEAT_TLS_KEY. */
export interface TlsPaths {
  readonly certPath: string;
  readonly keyPath: string;
}

/**
 * The certificate, with the chain that stands behind it in the file, and its key. Throws
 * `StartRefused` when they cannot be read, are something else, or do not belong together.
 */
export async function readTlsFiles({ certPath, keyPath }: TlsPaths): Promise<Identity> {
  const cert = await read(certSetting, certPath);
  const key = await read(keySetting, keyPath);
  const certificate = certificateIn(cert, certPath);
  if (!certificate.checkPrivateKey(privateKeyIn(key, keyPath))) {
    throw refusal(keySetting, keyPath, 'does not fit the certificate in LEAT_TLS_CERT');
  }
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    throw refusal(certSetting, certPath, `cannot be used (${codeOf(error) ?? String(error)})`);
  }
  return { cert, key };
}

/** What clients will object to, though a server can be started with it. */
export function objectionTo({ cert }: Identity, now: Millis): string | undefined {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  if (validToDate.getTime() <= now) return `the certificate expired ${validToDate.toISOString()}`;
  if (validFromDate.getTime() <= now) return undefined;
  return `the certificate is not valid before ${validFromDate.toISOString()}`;
}

export interface RenewalDeps {
  /** What is in use now. */
  readonly identity: Identity;
  /** Finds what should be in use. */
  readonly load: () => Promise<Identity>;
  /** Hears of another certificate or key; open connections keep theirs. */
  readonly renew: (identity: Identity) => void;
  /** Hears why there is none; the one in use stays. */
  readonly report: (error: unknown) => void;
  readonly clock: Pick<Clock, 'after'>;
  readonly everyMs: number;
}

/** Looks for another certificate from time to time, until aborted. Ends after the look under way. */
export async function followCertificate(deps: RenewalDeps, signal: AbortSignal): Promise<void> {
  let { identity } = deps;
  const look = async (): Promise<void> => {
    const found = await deps.load();
    if (signal.aborted || (found.cert === identity.cert && found.key === identity.key)) return;
    deps.renew(found);
    identity = found;
  };
  await sleep(deps.clock, deps.everyMs, signal);
  while (!signal.aborted) {
    await look().catch(deps.report);
    await sleep(deps.clock, deps.everyMs, signal);
  }
}

type FileSetting = Pick<Setting, 'variable' | 'example'>;

const certSetting: FileSetting = { variable: 'LEAT_TLS_CERT', example: '/etc/leat/cert.pem' };
const keySetting: FileSetting = { variable: 'LEAT_TLS_KEY', example: '/etc/leat/key.pem' };

async function read(setting: FileSetting, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw refusal(setting, path, `cannot be read (${codeOf(error) ?? String(error)})`);
  }
}

function certificateIn(text: string, path: string): X509Certificate {
  try {
    // Node reads the binary form too, but not where it serves with it.
    if (text.includes('-----BEGIN CERTIFICATE-----')) return new X509Certificate(text);
  } catch {
    // Said below.
  }
  throw refusal(certSetting, path, 'holds no certificate in PEM');
}

function privateKeyIn(text: string, path: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch {
    // Both forms of an encrypted key say so in a line of their own.
    const isEncrypted = /^(?:-----BEGIN|Proc-Type:).*\bENCRYPTED\b/m.test(text);
    const problem = isEncrypted ? 'is encrypted' : 'holds no private key in PEM';
    throw refusal(keySetting, path, problem);
  }
}

function refusal(setting: FileSetting, path: string, problem: string): StartRefused {
  return new StartRefused(problemLine(setting, `"${printable(path)}" ${problem}`));
}
