import { listeningHost, trustedProxies, type Setting } from '../core/setting.ts';
import { httpsOrigin, oneOf, plainText, wholeNumber } from '../core/value.ts';

/** Where the service listens, under which URL it is reached, and its TLS. */
export const listeningSettings = {
  host: listeningHost,
  port: {
    variable: 'LEAT_PORT',
    parse: wholeNumber(1, 65_535),
    fallback: '8080',
    doc: 'port to listen on',
  },
  publicUrl: {
    variable: 'LEAT_PUBLIC_URL',
    parse: httpsOrigin,
    example: 'https://leat.example.com',
    doc: 'public URL of the first tenant',
  },
  tlsCertPath: {
    variable: 'LEAT_TLS_CERT',
    parse: plainText(1, 4096),
    example: '/etc/leat/cert.pem',
    doc: 'PEM file of the certificate, with LEAT_TLS_KEY; a renewed one is loaded within a minute',
  },
  tlsKeyPath: {
    variable: 'LEAT_TLS_KEY',
    parse: plainText(1, 4096),
    example: '/etc/leat/key.pem',
    doc: 'PEM file of the private key, together with LEAT_TLS_CERT',
  },
  tls: {
    variable: 'LEAT_TLS',
    parse: oneOf('local'),
    example: 'local',
    doc: 'local: create a CA and a certificate for the tenant domains in the data folder',
  },
  trustProxy: trustedProxies,
} as const satisfies Record<string, Setting>;

/** Following the certificate of the service. */
export const tlsLimits = {
  /** How often the files are checked for a renewed certificate. */
  everyMs: 60_000,
} as const;
