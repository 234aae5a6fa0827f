/**
 * TLS with a local authority (LEAT_TLS=local, docs/http-api.md#local-certificate): it is in the data
 * folder and signs a certificate for the names of the service. Clients trust the authority, which is
 * valid for years; the certificate is replaced when the names change.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { join, resolve } from 'node:path';
import { parseAddress } from '../core/address.ts';
import type { Millis, RandomBytes } from '../core/clock.ts';
import { dayMs, hourMs } from '../core/units.ts';
import { StartRefused } from '../core/errors.ts';
import { createDataFile, keepFormer, readDataFile, writeDataFile } from '../files/data-folder.ts';
import type { Identity, Validity } from './x509.ts';

const AUTHORITY_DAYS = 3650;
/** Some clients reject server certificates of more than 398 days. */
const CERTIFICATE_DAYS = 397;
/** A certificate that expires sooner is replaced. */
const LEFT_DAYS_MIN = 30;
/** A client whose clock is behind accepts a new certificate. */
const CLOCK_SKEW_MS = hourMs;

const fileNames = {
  /** The certificate of the authority, which clients trust. */
  authority: 'tls-ca.pem',
  /** Key and certificate of the authority in one file, so that they always match. */
  authorityKey: 'tls-ca-key.pem',
  cert: 'tls-cert.pem',
  key: 'tls-key.pem',
};

const authorityTitle = 'Leat local CA';

const loopback = ['localhost', '127.0.0.1', '::1'];

/** Returns the absolute path of the authority's certificate, which clients trust. */
export function localAuthorityFile(folder: string): string {
  return resolve(join(folder, fileNames.authority));
}

export interface LocalTlsDeps {
  readonly now: Millis;
  readonly random: RandomBytes;
  /** Receives why clients have to trust another authority than before. */
  readonly replaced: (reason: string) => void;
}

/**
 * Returns the certificate in the folder if it is valid for all of these hosts, else creates one. It is
 * also valid for loopback names. The authority may sign for these hosts only; for another one, it is
 * replaced. Throws `StartRefused` when the folder cannot be used.
 *
 * @param hosts host names and addresses, IPv6 without brackets
 */
export async function loadOrCreateLocalTls(
  folder: string,
  hosts: readonly string[],
  deps: LocalTlsDeps,
): Promise<Identity> {
  const names = [...new Set([...loopback, ...hosts])];
  // Before the key, which is written first: another first start may be under way.
  const trusted = await readDataFile(folder, fileNames.authority);
  const stored = await readDataFile(folder, fileNames.authorityKey);
  refuseLostAuthority(folder, stored, trusted);
  const usable = usableAuthority(stored, deps.now);
  if (usable !== undefined) {
    await publish(folder, usable, deps.random);
    const pair = await readPair(folder);
    if (pair !== undefined && isUsable(pair, usable, { hosts: names, now: deps.now })) return pair;
  }
  const authority = await authorityFor(folder, names, { stored, usable }, deps);
  await publish(folder, authority, deps.random);
  const validity = certificateValidity(authority, deps.now);
  const { makeServerCertificate } = await x509();
  const made = await makeServerCertificate(names, authority, { validity, random: deps.random });
  await keepForeignPair(folder, deps.random);
  await writeDataFile({ folder, name: fileNames.key, text: made.key }, deps.random);
  await writeDataFile({ folder, name: fileNames.cert, text: made.cert, forAll: true }, deps.random);
  return made;
}

/** An authority that is there in part, or damaged, may be in a backup: another one would replace it. */
function refuseLostAuthority(
  folder: string,
  stored: string | undefined,
  trusted: string | undefined,
): void {
  const file = resolve(join(folder, fileNames.authorityKey));
  const certificate = localAuthorityFile(folder);
  const way = `put the file back that was there. For another authority, which clients must trust: move`;
  if (stored === undefined && trusted !== undefined) {
    throw new StartRefused(
      `LEAT_TLS: ${file} is missing, but ${certificate} is the certificate that clients trust: ${way} ${certificate} away`,
    );
  }
  if (stored !== undefined && !isMatchingPair(pairOf(stored), ({ ca }) => ca)) {
    throw new StartRefused(
      `LEAT_TLS: ${file} does not hold the key and the certificate of the authority: ${way} ${file} and ${certificate} away`,
    );
  }
}

/** Keeps a certificate and a key that somebody else has put there. */
async function keepForeignPair(folder: string, random: RandomBytes): Promise<void> {
  const cert = await readDataFile(folder, fileNames.cert);
  if (cert !== undefined && isLocal(cert)) return;
  await keepFormer(folder, fileNames.cert, random);
  await keepFormer(folder, fileNames.key, random);
}

/** Returns whether a local authority has signed the certificate. */
function isLocal(cert: string): boolean {
  try {
    return new X509Certificate(cert).issuer.startsWith(`CN=${authorityTitle} `);
  } catch {
    return false;
  }
}

/** Writes the certificate that clients trust. */
async function publish(folder: string, { cert }: Identity, random: RandomBytes): Promise<void> {
  if ((await readDataFile(folder, fileNames.authority)) === cert) return;
  await keepFormer(folder, fileNames.authority, random, isLocal);
  await writeDataFile({ folder, name: fileNames.authority, text: cert, forAll: true }, random);
}

/** Loaded on demand: most starts create no certificate, and loading takes 5 % of their time. */
const x509 = () => import('./x509.ts');

/** The authority in the folder: its file, and what it has if that can be used. */
interface Stored {
  readonly stored: string | undefined;
  readonly usable: Identity | undefined;
}

/** Returns the stored authority if it may sign for the names, else a new one. */
async function authorityFor(
  folder: string,
  names: readonly string[],
  { stored, usable }: Stored,
  deps: LocalTlsDeps,
): Promise<Identity> {
  const { permits } = await x509();
  const other = usable && names.find((name) => !permits(usable.cert, name));
  if (usable !== undefined && other === undefined) return usable;
  if (stored !== undefined) deps.replaced(reasonFor(stored, other));
  // The domain may be a mistake. One that cannot be used any more is not kept.
  if (usable !== undefined) await keepFormer(folder, fileNames.authorityKey, deps.random);
  return newAuthority(folder, names, stored, deps);
}

function reasonFor(stored: string, other: string | undefined): string {
  if (other !== undefined) return `it may not sign for ${other}`;
  return isConstrained(pairOf(stored).cert) ? 'it expires' : 'it could sign for any name';
}

/** Creates an authority; of two concurrent starts without one, both use the first. */
async function newAuthority(
  folder: string,
  names: readonly string[],
  former: string | undefined,
  { now, random }: LocalTlsDeps,
): Promise<Identity> {
  const { makeAuthority } = await x509();
  const validity = validityFrom(now, AUTHORITY_DAYS);
  const made = await makeAuthority(names, { title: authorityTitle, validity, random });
  const file = { folder, name: fileNames.authorityKey, text: made.key + made.cert };
  if (former === undefined) {
    return usableAuthority(await createDataFile(file, random), now) ?? made;
  }
  await writeDataFile(file, random);
  return made;
}

/** Authorities of earlier versions could sign for any name: they are not used any more. */
function usableAuthority(text: string | undefined, now: Millis): Identity | undefined {
  if (text === undefined) return undefined;
  const pair = pairOf(text);
  const isGood = isMatchingPair(
    pair,
    (certificate) => certificate.ca && isInForce(certificate, now),
  );
  return isGood && isConstrained(pair.cert) ? pair : undefined;
}

function pairOf(text: string): Identity {
  const at = text.indexOf('-----BEGIN CERTIFICATE-----');
  return { key: text.slice(0, at), cert: text.slice(at) };
}

/** The object identifier of name constraints, 2.5.29.30, in DER. */
const nameConstraintsId = Buffer.from([0x06, 0x03, 0x55, 0x1d, 0x1e]);

/** Whether a certificate has name constraints. Its bytes tell so without the X.509 library. */
function isConstrained(cert: string): boolean {
  return new X509Certificate(cert).raw.includes(nameConstraintsId);
}

async function readPair(folder: string): Promise<Identity | undefined> {
  const key = await readDataFile(folder, fileNames.key);
  const cert = await readDataFile(folder, fileNames.cert);
  return key === undefined || cert === undefined ? undefined : { key, cert };
}

function isUsable(
  pair: Identity,
  authority: Identity,
  { hosts, now }: { readonly hosts: readonly string[]; readonly now: Millis },
): boolean {
  const { publicKey } = new X509Certificate(authority.cert);
  return isMatchingPair(
    pair,
    (certificate) =>
      certificate.verify(publicKey) &&
      isInForce(certificate, now) &&
      hosts.every((host) => covers(certificate, host)),
  );
}

/** Returns whether the key belongs to the certificate, and the certificate passes a check. */
function isMatchingPair(
  { key, cert }: Identity,
  check: (certificate: X509Certificate) => boolean,
): boolean {
  try {
    const certificate = new X509Certificate(cert);
    return certificate.checkPrivateKey(createPrivateKey(key)) && check(certificate);
  } catch {
    // A file with other content is treated like a missing one.
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
  return validFromDate.getTime() <= now && leftMs >= LEFT_DAYS_MIN * dayMs;
}

/** A certificate expires with its authority at the latest. */
function certificateValidity(authority: Identity, now: Millis): Validity {
  const { from, until } = validityFrom(now, CERTIFICATE_DAYS);
  const end = new X509Certificate(authority.cert).validToDate.getTime();
  return { from, until: Math.min(until, end) };
}

function validityFrom(now: Millis, days: number): Validity {
  const from = now - CLOCK_SKEW_MS;
  return { from, until: from + days * dayMs };
}
