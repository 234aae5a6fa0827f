/**
 * TLS for a machine of one's own (LEAT_TLS=local, docs/http-api.md#local-certificate): an authority in the data
 * folder signs a certificate for the names that the service is reached by. A client trusts the
 * authority, which stays as it is for years while the certificate follows the names.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { join, resolve } from 'node:path';
import { parseAddress } from '../core/address.ts';
import type { Millis, RandomBytes } from '../core/clock.ts';
import { keep, keepFirst, readKept } from '../files/data-folder.ts';
import type { Identity, Validity } from './x509.ts';

const DAY_MS = 86_400_000;
const AUTHORITY_DAYS = 3650;
/** More than some clients accept of a server is 398. */
const CERTIFICATE_DAYS = 397;
/** What ends sooner is made anew. */
const LEFT_DAYS_MIN = 30;
/** A client whose clock is behind takes a new certificate all the same. */
const CLOCK_SKEW_MS = 3_600_000;

const names = {
  /** The certificate of the authority alone: what clients are told to trust. */
  authority: 'tls-ca.pem',
  /** Key and certificate of the authority in one file, so that they always fit each other. */
  authorityKey: 'tls-ca-key.pem',
  cert: 'tls-cert.pem',
  key: 'tls-key.pem',
};

const loopback = ['localhost', '127.0.0.1', '::1'];

/** The file with the authority that clients are to trust, as an absolute path. */
export function localAuthorityFile(folder: string): string {
  return resolve(join(folder, names.authority));
}

export interface LocalTlsDeps {
  readonly now: Millis;
  readonly random: RandomBytes;
}

/**
 * The certificate in the folder where it is good for all of these hosts, else a new one; it is good
 * for the machine's own names besides. Throws `StartRefused` when the folder cannot be used.
 *
 * @param hosts host names and addresses, IPv6 without brackets
 */
export async function keptLocalTls(
  folder: string,
  hosts: readonly string[],
  deps: LocalTlsDeps,
): Promise<Identity> {
  const wanted = [...new Set([...loopback, ...hosts])];
  const authority = await keptAuthority(folder, deps);
  const kept = await readPair(folder);
  if (kept !== undefined && isGood(kept, authority, { hosts: wanted, now: deps.now })) return kept;
  const validity = certificateValidity(authority, deps.now);
  const { makeServerCertificate } = await x509();
  const made = await makeServerCertificate(wanted, authority, { validity, random: deps.random });
  await keep({ folder, name: names.key, text: made.key }, deps.random);
  await keep({ folder, name: names.cert, text: made.cert, forAll: true }, deps.random);
  return made;
}

async function keptAuthority(folder: string, deps: LocalTlsDeps): Promise<Identity> {
  const kept = await readKept(folder, names.authorityKey);
  const authority = usableAuthority(kept, deps.now) ?? (await newAuthority(folder, kept, deps));
  const shown = await readKept(folder, names.authority);
  if (shown !== authority.cert) {
    const text = authority.cert;
    await keep({ folder, name: names.authority, text, forAll: true }, deps.random);
  }
  return authority;
}

/** Most starts make no certificate, and loading what makes one takes a twentieth of one. */
const x509 = () => import('./x509.ts');

/** Of two starts at once that find none, one makes the authority of both. */
async function newAuthority(
  folder: string,
  former: string | undefined,
  { now, random }: LocalTlsDeps,
): Promise<Identity> {
  const { makeAuthority } = await x509();
  const made = await makeAuthority(validityFrom(now, AUTHORITY_DAYS), random);
  const file = { folder, name: names.authorityKey, text: made.key + made.cert };
  if (former === undefined) {
    return usableAuthority(await keepFirst(file, random), now) ?? made;
  }
  await keep(file, random);
  return made;
}

function usableAuthority(text: string | undefined, now: Millis): Identity | undefined {
  if (text === undefined) return undefined;
  const at = text.indexOf('-----BEGIN CERTIFICATE-----');
  const pair = { key: text.slice(0, at), cert: text.slice(at) };
  return fit(pair, (certificate) => certificate.ca && isInForce(certificate, now))
    ? pair
    : undefined;
}

async function readPair(folder: string): Promise<Identity | undefined> {
  const key = await readKept(folder, names.key);
  const cert = await readKept(folder, names.cert);
  return key === undefined || cert === undefined ? undefined : { key, cert };
}

function isGood(
  pair: Identity,
  authority: Identity,
  { hosts, now }: { readonly hosts: readonly string[]; readonly now: Millis },
): boolean {
  const { publicKey } = new X509Certificate(authority.cert);
  return fit(
    pair,
    (certificate) =>
      certificate.verify(publicKey) &&
      isInForce(certificate, now) &&
      hosts.every((host) => covers(certificate, host)),
  );
}

/** Whether key and certificate belong together and the certificate is as it should be. */
function fit({ key, cert }: Identity, judge: (certificate: X509Certificate) => boolean): boolean {
  try {
    const certificate = new X509Certificate(cert);
    return certificate.checkPrivateKey(createPrivateKey(key)) && judge(certificate);
  } catch {
    // A file that holds something else is as good as none.
    return false;
  }
}

function covers(certificate: X509Certificate, host: string): boolean {
  const found =
    parseAddress(host) === undefined ? certificate.checkHost(host) : certificate.checkIP(host);
  return found !== undefined;
}

function isInForce({ validFromDate, validToDate }: X509Certificate, now: Millis): boolean {
  const leftMs = validToDate.getTime() - now;
  return validFromDate.getTime() <= now && leftMs >= LEFT_DAYS_MIN * DAY_MS;
}

/** Nothing is good for longer than who signed it. */
function certificateValidity(authority: Identity, now: Millis): Validity {
  const { from, until } = validityFrom(now, CERTIFICATE_DAYS);
  const end = new X509Certificate(authority.cert).validToDate.getTime();
  return { from, until: Math.min(until, end) };
}

function validityFrom(now: Millis, days: number): Validity {
  const from = now - CLOCK_SKEW_MS;
  return { from, until: from + days * DAY_MS };
}
