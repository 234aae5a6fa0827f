import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { Clock, Millis } from '../core/clock.ts';
import { codeOf, StartRefused } from '../core/errors.ts';
import { printable, problemLine, type Setting } from '../core/setting.ts';
import { sleep } from '../core/sleep.ts';
import type { Identity } from './x509.ts';

/** Files of a certificate and its key: LEAT_TLS_CERT and LEAT_TLS_KEY. */
export interface TlsPaths {
  readonly certPath: string;
  readonly keyPath: string;
}

/**
 * Reads a certificate with its chain, and the key. Throws `StartRefused` when they cannot be read, are
 * not PEM, or do not match.
 */
export async function readTlsFiles({ certPath, keyPath }: TlsPaths): Promise<Identity> {
  const cert = await read(certSetting, certPath);
  const key = await read(keySetting, keyPath);
  const certificate = certificateIn(cert, certPath);
  if (!certificate.checkPrivateKey(privateKeyIn(key, keyPath))) {
    throw refusal(keySetting, keyPath, 'does not match the certificate in LEAT_TLS_CERT');
  }
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    throw refusal(certSetting, certPath, `cannot be used (${codeOf(error) ?? String(error)})`);
  }
  return { cert, key };
}

/** Returns why clients will reject a certificate that a server can be started with. */
export function validityProblem({ cert }: Identity, now: Millis): string | undefined {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  if (validToDate.getTime() <= now) return `the certificate expired ${validToDate.toISOString()}`;
  if (validFromDate.getTime() <= now) return undefined;
  return `the certificate is not valid before ${validFromDate.toISOString()}`;
}

export interface RenewalDeps {
  /** The certificate in use. */
  readonly identity: Identity;
  /** Reads the certificate that should be in use. */
  readonly load: () => Promise<Identity>;
  /** Receives another certificate or key; open connections keep the old one. */
  readonly renew: (identity: Identity) => void;
  /** Receives why it could not be read; the one in use stays. */
  readonly report: (error: unknown) => void;
  readonly clock: Pick<Clock, 'after'>;
  readonly everyMs: number;
}

/** Reads the certificate every `everyMs`, until aborted. Ends after the read in progress. */
export async function watchCertificate(deps: RenewalDeps, signal: AbortSignal): Promise<void> {
  let { identity } = deps;
  const check = async (): Promise<void> => {
    const loaded = await deps.load();
    if (signal.aborted || (loaded.cert === identity.cert && loaded.key === identity.key)) return;
    deps.renew(loaded);
    identity = loaded;
  };
  await sleep(deps.clock, deps.everyMs, signal);
  while (!signal.aborted) {
    await check().catch(deps.report);
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
    // Node parses the binary form too, but cannot serve with it.
    if (text.includes('-----BEGIN CERTIFICATE-----')) return new X509Certificate(text);
  } catch {
    // Reported below.
  }
  throw refusal(certSetting, path, 'holds no certificate in PEM');
}

function privateKeyIn(text: string, path: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch {
    // Both forms of an encrypted key have a line that says so.
    const isEncrypted = /^(?:-----BEGIN|Proc-Type:).*\bENCRYPTED\b/m.test(text);
    const problem = isEncrypted ? 'is encrypted' : 'holds no private key in PEM';
    throw refusal(keySetting, path, problem);
  }
}

function refusal(setting: FileSetting, path: string, problem: string): StartRefused {
  return new StartRefused(problemLine(setting, `"${printable(path)}" ${problem}`));
}
