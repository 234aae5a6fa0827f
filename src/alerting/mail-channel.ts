import { connect, type LookupFunction, type Socket } from 'node:net';
import type { SMTPTransportOptions } from 'nodemailer';
import { alertText, isStreamAlert } from './alert.ts';
import { causeText } from './alert-body.ts';
import { guidanceOf } from './guidance.ts';
import { patientConnect } from '../core/address.ts';
import { formatTime } from '../core/date.ts';
import { isLoopback } from '../core/value.ts';
import { AlertNotSent, type AlertChannel, type AlertMessage, labelOf } from './channel.ts';

/** Of one response of the server. */
const RESPONSE_BYTES_MAX = 64 * 1024;

export interface AlertMailSettings {
  /** `smtp://` or `smtps://`, user info percent-encoded, host and port (587 and 465 without one). */
  readonly smtpUrl: string;
  readonly to: string;
  /** Replaces `dns.lookup`, which takes a thread that other work needs. */
  readonly lookup?: LookupFunction | undefined;
}

/**
 * Creates a channel that sends one mail per alert, each over its own connection. `smtps://` is TLS
 * from the start; `smtp://` switches to TLS where the server offers it (STARTTLS). Except for a
 * server on this machine, a password requires TLS and the certificate must be valid.
 */
export function createAlertMail({ smtpUrl, to, lookup }: AlertMailSettings): AlertChannel {
  const server = serverOf(new URL(smtpUrl));
  return {
    name: 'email',
    send: async (message, signal) => {
      // Loaded on demand: most processes send no mail, and loading takes a tenth of their start time.
      const { createTransport } = await import('nodemailer');
      const sockets: Socket[] = [];
      const cutOff = (): void => {
        for (const socket of sockets) socket.destroy(new Error('cut off'));
      };
      signal.addEventListener('abort', cutOff, { once: true });
      try {
        const options: SMTPTransportOptions = {
          ...server,
          // Our own socket can be closed at any moment; the library has timeouts only.
          getSocket: (_options, done) => {
            const socket = connect({ ...server, ...patientConnect(), lookup });
            sockets.push(socket);
            // The library handles later errors, but not after it has finished.
            socket.once('error', (error) => done(error, false)).on('error', () => undefined);
            socket.once('connect', () => done(null, { connection: socket }));
            if (signal.aborted) socket.destroy(new Error('aborted'));
          },
        };
        await createTransport(options).sendMail(mailOf(message, senderOf(server, message), to));
      } catch (error) {
        throw new AlertNotSent(reasonOf(error), { cause: error });
      } finally {
        signal.removeEventListener('abort', cutOff);
        cutOff();
      }
    },
  };
}

function serverOf(url: URL) {
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const secure = url.protocol === 'smtps:';
  const user = decoded(url.username);
  const isHere = isLoopback(url.hostname);
  return {
    host,
    port: url.port === '' ? (secure ? 465 : 587) : Number(url.port),
    secure,
    requireTLS: user !== '' && !isHere,
    tls: { rejectUnauthorized: !isHere },
    ...(user === '' ? {} : { auth: { user, pass: decoded(url.password) } }),
    maxResponseSize: RESPONSE_BYTES_MAX,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** Decodes user info; text that is not percent-encoded is returned unchanged. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the sender: many servers accept mail of an account only from its own address. */
function senderOf(
  { auth }: { readonly auth?: { readonly user: string } },
  message: AlertMessage,
): string {
  const { user = '' } = auth ?? {};
  if (/^[^\s@,;:<>"()[\]\\\p{C}]+@[a-z0-9.-]+$/iu.test(user)) return user;
  const host = message.domain.replace(/:[0-9]+$/, '');
  // A mail address cannot have an IP address in the form of a domain.
  return /^[a-z0-9_.-]*[a-z][a-z0-9_.-]*$/.test(host) ? `leat@${host}` : 'leat@localhost';
}

/** Subject and text consist of a sentence without line breaks: no name can add a header. */
function mailOf(message: AlertMessage, from: string, to: string) {
  const { alert } = message;
  const { kind, tenant, at } = alert;
  const about = isStreamAlert(alert) ? alert.stream.id : idOf(alert.key);
  const host = from.slice(from.lastIndexOf('@') + 1);
  return {
    from: { name: 'Leat', address: from },
    to: { name: '', address: to },
    subject: `[Leat ${tenant}] ${alertText(alert)}`,
    text: textOf(message),
    date: new Date(at),
    // Equal for a repeated alert, so that mail systems can drop the duplicate.
    messageId: `<${kind}.${about}.${at}@${host}>`,
    // RFC 3834: prevents automatic replies.
    headers: { 'auto-submitted': 'auto-generated' },
  };
}

/** Returns the key of a system alert in characters of a `Message-ID` (RFC 5322 section 3.6.4). */
function idOf(key: string): string {
  return key.replaceAll(/[^A-Za-z0-9._-]+/g, '-').slice(0, 100);
}

function textOf({ alert, domain, url }: AlertMessage): string {
  const { kind, stream, tenant, at } = alert;
  const { cause, link, next_command: command } = guidanceOf(alert, url);
  return [
    alertText(alert),
    '',
    `Alert         ${kind}`,
    `Tenant        ${tenant}, ${domain}`,
    ...(stream === undefined ? [] : [`Event stream  ${stream.id}`]),
    `Seen          ${formatTime(at)}`,
    `Cause         ${causeText(cause)}`,
    `Link          ${link}`,
    `Next command  ${command}`,
    '',
  ].join('\n');
}

/** Returns the error code of the library (nodemailer.com, Error codes), with the SMTP reply code if any. */
function reasonOf(error: unknown): string {
  const { responseCode } = Object(error) as { readonly responseCode?: unknown };
  const code = labelOf(error);
  const reason = reasons[code] ?? code;
  return typeof responseCode === 'number' ? `${reason}, response ${responseCode}` : reason;
}

const reasons: Readonly<Record<string, string>> = {
  EAUTH: 'the server rejects the login (EAUTH)',
  EENVELOPE: 'the server rejects an address (EENVELOPE)',
  ETLS: 'no TLS with the server (ETLS)',
};
