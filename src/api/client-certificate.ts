import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import type { Millis } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import type { ClientCertificatePatch } from '../core/streams.ts';

/** A certificate as it was sent; without a key where the present one is meant. */
export interface CertificateSent {
  readonly certificate: string;
  readonly private_key?: string | undefined;
}

/** Why a certificate is not accepted, and what to do. */
export interface CertificateViolation {
  readonly field: 'certificate' | 'private_key';
  readonly reason: string;
}

/**
 * Reads a certificate with its chain and its key, all in PEM, and checks that they can be used for TLS
 * now. Texts around the blocks are left out. Without a key the certificate must be the present one,
 * so it may have expired since.
 */
export function readClientCertificate(
  { certificate, private_key: key }: CertificateSent,
  now: Millis,
): ClientCertificatePatch | CertificateViolation {
  const blocks = blocksOf(certificate);
  const chain = readChain(blocks);
  if (!Array.isArray(chain)) return chain;
  const read = { certificate: textOf(blocks), expiresAt: expiryOf(chain) };
  if (key === undefined) return read;
  const keyBlocks = blocksOf(key).filter(({ label }) => label !== 'EC PARAMETERS');
  const privateKey = readKey(keyBlocks);
  if ('reason' in privateKey) return privateKey;
  const reason = mismatchOf(chain, privateKey) ?? disorderOf(chain) ?? periodOf(chain, now);
  if (reason !== undefined) return reason;
  return usable({ ...read, privateKey: textOf(keyBlocks) });
}

interface Block {
  readonly label: string;
  /** Of the block, with normal line ends. */
  readonly text: string;
}

function blocksOf(pem: string): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  for (;;) {
    const begin = /-----BEGIN (?<label>[A-Z0-9 ]{1,40})-----/g;
    begin.lastIndex = at;
    const match = begin.exec(pem);
    const label = match?.groups?.['label'];
    if (match === null || label === undefined) return blocks;
    const endLine = `-----END ${label}-----`;
    const end = pem.indexOf(endLine, begin.lastIndex);
    if (end < 0) return blocks;
    const lines = pem
      .slice(begin.lastIndex, end)
      .trim()
      .split(/[ \t]*\r?\n[ \t]*/);
    blocks.push({ label, text: [match[0], ...lines, endLine, ''].join('\n') });
    at = end + endLine.length;
  }
}

function textOf(blocks: readonly Block[]): string {
  return blocks.map(({ text }) => text).join('');
}

/** A certificate, the one that issued it, and so on. More than five are not needed. */
const chainMax = 5;

function readChain(blocks: readonly Block[]): X509Certificate[] | CertificateViolation {
  if (blocks.some(({ label }) => label.endsWith('PRIVATE KEY'))) {
    return badCertificate(
      'It has a private key, and would be returned with it: send that as private_key',
    );
  }
  if (blocks.length === 0) return badCertificate(`No PEM found: ${certificateHint}`);
  const other = blocks.find(({ label }) => label !== 'CERTIFICATE');
  if (other !== undefined) {
    return badCertificate(`A block is ${other.label} instead of CERTIFICATE: ${certificateHint}`);
  }
  if (blocks.length > chainMax) {
    return badCertificate(
      `More than ${chainMax} certificates: send the client's and its intermediate ones`,
    );
  }
  const chain: X509Certificate[] = [];
  for (const { text } of blocks) {
    try {
      chain.push(new X509Certificate(text));
    } catch {
      return badCertificate(`Certificate ${chain.length + 1} cannot be read: ${certificateHint}`);
    }
  }
  return chain;
}

const certificateHint =
  "send the client's certificate from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----, then its intermediate ones";
const keyHint = 'send it from -----BEGIN PRIVATE KEY----- to -----END PRIVATE KEY-----';

function readKey(blocks: readonly Block[]): KeyObject | CertificateViolation {
  const [block] = blocks;
  if (block === undefined) return badKey(`No PEM found: ${keyHint}`);
  if (blocks.length > 1) return badKey(`More than one PEM block: send the key alone`);
  if (block.label === 'ENCRYPTED PRIVATE KEY' || /^Proc-Type:.*ENCRYPTED/m.test(block.text)) {
    return badKey(
      'The key is encrypted: decrypt it first, as with openssl pkey -in key.pem -out decrypted.pem',
    );
  }
  if (!block.label.endsWith('PRIVATE KEY')) {
    return badKey(`The block is ${block.label} instead of PRIVATE KEY: ${keyHint}`);
  }
  try {
    const key = createPrivateKey(block.text);
    const { modulusLength = 0 } = key.asymmetricKeyDetails ?? {};
    if (modulusLength <= modulusBitsMax) return key;
    return badKey(
      `The RSA key has ${modulusLength} bits: use one of at most ${modulusBitsMax}, or an elliptic curve`,
    );
  } catch {
    return badKey(`The key cannot be read: ${keyHint}`);
  }
}

/** Each connection signs once; larger keys take tens of milliseconds for that. */
const modulusBitsMax = 4096;

function mismatchOf(
  chain: readonly X509Certificate[],
  key: KeyObject,
): CertificateViolation | undefined {
  const index = chain.findIndex((each) => each.checkPrivateKey(key));
  if (index === 0) return undefined;
  if (index < 0) return badKey('The key does not belong to the certificate: send its own key');
  return badCertificate(
    `The key belongs to certificate ${index + 1}: put that one first, then the one that issued it`,
  );
}

function disorderOf(chain: readonly X509Certificate[]): CertificateViolation | undefined {
  const wrong = chain.findIndex((each, index) => {
    const issuer = chain[index + 1];
    return issuer !== undefined && !(each.checkIssued(issuer) && each.verify(issuer.publicKey));
  });
  if (wrong < 0) return undefined;
  return badCertificate(
    `Certificate ${wrong + 2} did not issue certificate ${wrong + 1}: put each certificate before the one that issued it, the client's first`,
  );
}

function periodOf(
  chain: readonly X509Certificate[],
  now: Millis,
): CertificateViolation | undefined {
  const expired = chain.findIndex(({ validToDate }) => validToDate.getTime() <= now);
  if (expired >= 0) {
    const at = formatTime(chain[expired]?.validToDate.getTime() ?? 0);
    return badCertificate(`Certificate ${expired + 1} expired at ${at}: send a renewed one`);
  }
  const early = chain.findIndex(({ validFromDate }) => validFromDate.getTime() > now);
  if (early < 0) return undefined;
  const at = formatTime(chain[early]?.validFromDate.getTime() ?? 0);
  return badCertificate(`Certificate ${early + 1} is not valid before ${at}: send it then`);
}

/** Returns when the first certificate of the chain expires. */
function expiryOf(chain: readonly X509Certificate[]): Millis {
  return Math.min(...chain.map(({ validToDate }) => validToDate.getTime()));
}

/** Returns the pair unless the TLS library refuses it, such as for a key that is too small. */
function usable(
  read: ClientCertificatePatch & { readonly privateKey: string },
): ClientCertificatePatch | CertificateViolation {
  try {
    createSecureContext({ cert: read.certificate, key: read.privateKey });
    return read;
  } catch (error) {
    const { code } = Object(error) as { readonly code?: unknown };
    const shown = typeof code === 'string' && /^[A-Z0-9_]{1,64}$/.test(code) ? ` (${code})` : '';
    return badCertificate(
      `TLS refuses the certificate or its key${shown}: use RSA with 2048 to 4096 bits, or an elliptic curve`,
    );
  }
}

function badCertificate(reason: string): CertificateViolation {
  return { field: 'certificate', reason };
}

function badKey(reason: string): CertificateViolation {
  return { field: 'private_key', reason };
}
