import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { classifyTransportError, type Phase } from '../../../src/delivery/http/transport-error.ts';
import { BlockedAddress, LookupFailed } from '../../../src/delivery/http/egress.ts';

const phases: readonly Phase[] = ['connecting', 'securing', 'sent', 'receiving'];

function coded(code: string, message = 'Bearer topsecret'): Error {
  return Object.assign(new Error(message), { code });
}

function inWords(error: unknown, phase: Phase): string {
  const { cause, detail } = classifyTransportError(error, phase);
  return detail === undefined ? cause : `${cause}: ${detail}`;
}

describe('an error', () => {
  const anyPhase: readonly (readonly [error: unknown, words: string])[] = [
    [new BlockedAddress('10.0.0.1'), 'blocked address: 10.0.0.1 (LEAT_EGRESS_ALLOW)'],
    [new BlockedAddress(), 'blocked address: no allowed address (LEAT_EGRESS_ALLOW)'],
    [new LookupFailed('ENOTFOUND'), 'dns: ENOTFOUND'],
    [new LookupFailed('EAI_AGAIN'), 'dns: EAI_AGAIN'],
    [new LookupFailed('ECONNREFUSED'), 'dns: ECONNREFUSED'],
    [new LookupFailed(''), 'dns'],
    [coded('ECONNREFUSED'), 'refused: ECONNREFUSED'],
    [coded('EHOSTUNREACH'), 'refused: EHOSTUNREACH'],
    [coded('ENETUNREACH'), 'refused: ENETUNREACH'],
    [coded('ECONNRESET'), 'reset: ECONNRESET'],
    [coded('EPIPE'), 'reset: EPIPE'],
    [coded('UND_ERR_SOCKET', 'other side closed'), 'reset: closed before the end of the answer'],
    [coded('UND_ERR_SOCKET', 'bad upgrade'), 'protocol: unexpected answer'],
    [coded('UND_ERR_HEADERS_OVERFLOW'), 'protocol: headers too large'],
    [coded('UND_ERR_INVALID_ARG'), 'protocol: the request cannot be written'],
    [coded('ETIMEDOUT'), 'timeout'],
    [new AggregateError([coded('ECONNREFUSED'), coded('ENETUNREACH')]), 'refused: ECONNREFUSED'],
  ];
  for (const [error, words] of anyPhase) {
    test(`the error is ${words} in every phase`, () => {
      for (const phase of phases) assert.equal(inWords(error, phase), words);
    });
  }

  const byPhase: readonly (readonly [error: unknown, ...words: string[]])[] = [
    [coded('EMFILE'), 'refused: EMFILE', 'tls: EMFILE', 'protocol: EMFILE', 'protocol: EMFILE'],
    [
      coded('CERT_HAS_EXPIRED'),
      'refused: CERT_HAS_EXPIRED',
      'tls: CERT_HAS_EXPIRED',
      'protocol: CERT_HAS_EXPIRED',
      'protocol: CERT_HAS_EXPIRED',
    ],
    [
      coded('ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED'),
      'refused: ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
      'tls: ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
      'tls: ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
      'tls: ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED',
    ],
    [
      coded('UND_ERR_RES_CONTENT_LENGTH_MISMATCH'),
      'protocol',
      'protocol',
      'protocol',
      'reset: closed before the end of the answer',
    ],
    [new Error('Bearer topsecret'), 'refused', 'tls', 'protocol', 'protocol'],
    [undefined, 'refused', 'tls', 'protocol', 'protocol'],
    [null, 'refused', 'tls', 'protocol', 'protocol'],
    ['a text', 'refused', 'tls', 'protocol', 'protocol'],
    [new AggregateError([]), 'refused', 'tls', 'protocol', 'protocol'],
  ];
  for (const [error, ...words] of byPhase) {
    test(`the error depends on the phase: ${words.join(', ')}`, () => {
      assert.deepEqual(
        phases.map((phase) => inWords(error, phase)),
        words,
      );
    });
  }

  test('no text that may be the receiver’s is shown', () => {
    const stranger = 'Bearer topsecret <b>\n';
    const parserError = (message: string): Error =>
      Object.assign(new Error(message), { name: 'HTTPParserError' });
    const errors = [
      coded('lower case', stranger),
      coded('X'.repeat(65), stranger),
      coded('', stranger),
      Object.assign(new Error(stranger), { code: 7 }),
      parserError(`Response does not match (${stranger})`),
      parserError(stranger),
      new AggregateError([new Error(stranger)], stranger),
    ];
    for (const error of errors) {
      for (const phase of phases)
        assert.match(inWords(error, phase), /^(refused|tls|protocol(: not HTTP)?)$/);
    }
  });
});
