/** X.509 certificates on the curve P-256: an authority and what it signs (RFC 5280). */
import {
  createHash,
  createPrivateKey,
  generateKeyPair,
  type KeyObject,
  X509Certificate,
} from 'node:crypto';
import { promisify } from 'node:util';
import { BitString, Integer, OctetString, Utf8String } from 'asn1js';
import {
  AltName,
  AttributeTypeAndValue,
  AuthorityKeyIdentifier,
  BasicConstraints,
  Certificate,
  Extension,
  ExtKeyUsage,
  GeneralName,
  GeneralSubtree,
  NameConstraints,
  PublicKeyInfo,
  RelativeDistinguishedNames,
  Time,
  TimeType,
} from 'pkijs';
import { parseAddress } from '../core/address.ts';
import type { Millis, RandomBytes } from '../core/clock.ts';

/** A certificate and its private key in PEM. */
export interface Identity {
  readonly cert: string;
  readonly key: string;
}

/** Validity period of a certificate. */
export interface Validity {
  readonly from: Millis;
  readonly until: Millis;
}

/** The common names of authorities begin with `title`. */
export interface AuthorityOptions {
  readonly title: string;
  readonly validity: Validity;
  readonly random: RandomBytes;
}

/**
 * Creates an authority that may sign server certificates for these host names, their subdomains and
 * these addresses, and no further authorities. Clients that trust it accept nothing else of it, so a
 * stolen key is of no use for other hosts.
 */
export async function makeAuthority(
  hosts: readonly string[],
  { title, validity, random }: AuthorityOptions,
): Promise<Identity> {
  const pair = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' });
  // Clients that trust two authorities of the same name would confuse them.
  const name = nameOf(`${title} ${Buffer.from(random(4)).toString('hex')}`);
  const certificate = draft({ subject: name, publicKey: pair.publicKey, validity, random });
  certificate.issuer = name;
  certificate.extensions = [
    extension(
      oids.basicConstraints,
      new BasicConstraints({ cA: true, pathLenConstraint: 0 }),
      true,
    ),
    extension(oids.keyUsage, keyUsage({ byte: 0b0000_0110, unusedBits: 1 }), true),
    extension(oids.extKeyUsage, serverAuth()),
    extension(oids.nameConstraints, nameConstraints(hosts), true),
    subjectKey(pair.publicKey),
  ];
  return signed(certificate, pair.privateKey, pair.privateKey);
}

/** Creates a server certificate for these host names and addresses. */
export async function makeServerCertificate(
  hosts: readonly string[],
  authority: Identity,
  { validity, random }: { readonly validity: Validity; readonly random: RandomBytes },
): Promise<Identity> {
  const pair = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' });
  const subject = nameOf('Leat');
  const certificate = draft({ subject, publicKey: pair.publicKey, validity, random });
  const issuer = new X509Certificate(authority.cert);
  certificate.issuer = Certificate.fromBER(issuer.raw).subject;
  certificate.extensions = [
    extension(oids.basicConstraints, new BasicConstraints({ cA: false }), true),
    extension(oids.keyUsage, keyUsage({ byte: 0b1000_0000, unusedBits: 7 }), true),
    extension(oids.extKeyUsage, serverAuth()),
    extension(oids.subjectAltName, new AltName({ altNames: hosts.map(generalName) })),
    subjectKey(pair.publicKey),
    authorityKey(issuer.publicKey),
  ];
  return signed(certificate, pair.privateKey, createPrivateKey(authority.key));
}

/** Returns whether the name constraints of an authority permit a host name or an address. */
export function permits(cert: string, host: string): boolean {
  const { permittedSubtrees = [] } = constraintsOf(cert) ?? {};
  const wanted = subtree(host).base;
  return permittedSubtrees.some(({ base }) => base.type === wanted.type && covers(base, wanted));
}

function constraintsOf(cert: string): NameConstraints | undefined {
  const { extensions = [] } = Certificate.fromBER(new X509Certificate(cert).raw);
  const found = extensions.find(({ extnID }) => extnID === oids.nameConstraints);
  return found?.parsedValue as NameConstraints | undefined;
}

/** A name covers its subdomains, an address with its mask itself. */
function covers({ value: base }: GeneralName, { value }: GeneralName): boolean {
  if (typeof base === 'string') {
    return `.${String(value)}`.toLowerCase().endsWith(`.${base.toLowerCase()}`);
  }
  return Buffer.from(octetsOf(base)).equals(octetsOf(value));
}

function octetsOf(value: unknown): Uint8Array {
  return value instanceof OctetString ? value.valueBlock.valueHexView : new Uint8Array();
}

const oids = {
  commonName: '2.5.4.3',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  authorityKeyIdentifier: '2.5.29.35',
  extKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
};

function draft(options: {
  readonly subject: RelativeDistinguishedNames;
  readonly publicKey: KeyObject;
  readonly validity: Validity;
  readonly random: RandomBytes;
}): Certificate {
  return new Certificate({
    version: 2,
    serialNumber: new Integer({ valueHex: serialNumber(options.random) }),
    subject: options.subject,
    notBefore: timeOf(options.validity.from),
    notAfter: timeOf(options.validity.until),
    subjectPublicKeyInfo: PublicKeyInfo.fromBER(spkiOf(options.publicKey)),
  });
}

/** Returns a positive number whose first byte is not zero, as DER requires. */
function serialNumber(random: RandomBytes): Uint8Array {
  const bytes = Uint8Array.from(random(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x3f) | 0x40;
  return bytes;
}

/** RFC 5280 section 4.1.2.5: whole seconds; two digits of the year until 2049, then four. */
function timeOf(millis: Millis): Time {
  const value = new Date(Math.floor(millis / 1000) * 1000);
  const type = value.getUTCFullYear() < 2050 ? TimeType.UTCTime : TimeType.GeneralizedTime;
  return new Time({ type, value });
}

function nameOf(commonName: string): RelativeDistinguishedNames {
  const value = new Utf8String({ value: commonName });
  return new RelativeDistinguishedNames({
    typesAndValues: [new AttributeTypeAndValue({ type: oids.commonName, value })],
  });
}

/** A DNS name, or an address as its bytes (RFC 5280 section 4.2.1.6). */
function generalName(host: string): GeneralName {
  const bytes = parseAddress(host);
  if (bytes === undefined) return new GeneralName({ type: 2, value: host });
  return new GeneralName({
    type: 7,
    value: new OctetString({ valueHex: Uint8Array.from(bytes) }),
  });
}

function nameConstraints(hosts: readonly string[]): NameConstraints {
  return new NameConstraints({ permittedSubtrees: hosts.map(subtree) });
}

/** RFC 5280 section 4.2.1.10: an address is followed by its mask. */
function subtree(host: string): GeneralSubtree {
  const bytes = parseAddress(host);
  if (bytes === undefined) return new GeneralSubtree({ base: generalName(host) });
  const valueHex = Uint8Array.from([...bytes, ...bytes.map(() => 0xff)]);
  return new GeneralSubtree({
    base: new GeneralName({ type: 7, value: new OctetString({ valueHex }) }),
  });
}

function serverAuth(): ExtKeyUsage {
  return new ExtKeyUsage({ keyPurposes: [oids.serverAuth] });
}

function keyUsage({ byte, unusedBits }: { byte: number; unusedBits: number }): Encodable {
  const bits = new BitString({ valueHex: Uint8Array.of(byte), unusedBits });
  return { toSchema: () => bits };
}

function subjectKey(publicKey: KeyObject): Extension {
  const id = keyId(publicKey);
  return extension(oids.subjectKeyIdentifier, { toSchema: () => id });
}

function authorityKey(publicKey: KeyObject): Extension {
  const identifier = new AuthorityKeyIdentifier({ keyIdentifier: keyId(publicKey) });
  return extension(oids.authorityKeyIdentifier, identifier);
}

/** Returns an identifier of the key (RFC 7093 section 2, method 4). */
function keyId(publicKey: KeyObject): OctetString {
  const hash = createHash('sha256').update(spkiOf(publicKey)).digest();
  return new OctetString({ valueHex: hash.subarray(0, 20) });
}

interface Encodable {
  toSchema(): { toBER(): ArrayBuffer };
}

function extension(extnID: string, value: Encodable, critical = false): Extension {
  return new Extension({ extnID, critical, extnValue: value.toSchema().toBER() });
}

async function signed(
  certificate: Certificate,
  key: KeyObject,
  signer: KeyObject,
): Promise<Identity> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256' };
  await certificate.sign(signer.toCryptoKey(algorithm, false, ['sign']), 'SHA-256');
  const der = Buffer.from(certificate.toSchema(true).toBER());
  return {
    cert: new X509Certificate(der).toString(),
    key: key.export({ type: 'pkcs8', format: 'pem' }),
  };
}

function spkiOf(publicKey: KeyObject): Buffer {
  return publicKey.export({ type: 'spki', format: 'der' });
}
