import { connect, type LookupFunction, type Socket } from 'node:net';
import type { SMTPTransportOptions } from 'nodemailer';
import { type Alert, alertText, isStreamAlert } from './alert.ts';
import { formatTime } from '../core/date.ts';
import { isLoopback } from '../core/value.ts';
import { AlertNotSent, type AlertChannel, type AlertMessage, labelOf } from './channel.ts';

/** Of one answer of the server. */
const ANSWER_BYTES_MAX = 64 * 1024;

export interface AlertMailSettings {
  /** `smtp://` or `smtps://`, user info percent-encoded, host and port (587 and 465 without one). */
  readonly smtpUrl: string;
  readonly to: string;
  /** Instead of `dns.lookup`, which takes a thread that others need. */
  readonly lookup?: LookupFunction | undefined;
}

/**
 * Mails alerts, one each, over a connection of its own. `smtps://` is TLS from the start;
 * `smtp://` goes over to TLS where the server offers it (STARTTLS). A password is never sent in
 * clear text, and the server's certificate has to hold; on the machine itself neither matters.
 */
export function createAlertMail({ smtpUrl, to, lookup }: AlertMailSettings): AlertChannel {
  const server = serverOf(new URL(smtpUrl));
  return {
    name: 'email',
    send: async (letter, signal) => {
      // Most starts send no mail, and loading it takes a tenth of one.
      const { createTransport } = await import('nodemailer');
      const sockets: Socket[] = [];
      const cutOff = (): void => {
        for (const socket of sockets) socket.destroy(new Error('cut off'));
      };
      signal.addEventListener('abort', cutOff, { once: true });
      try {
        const options: SMTPTransportOptions = {
          ...server,
          // A socket of ours can be cut off at any moment; the library knows time-outs only.
          getSocket: (_options, done) => {
            const socket = connect({ ...server, lookup });
            sockets.push(socket);
            // Errors of later the library hears by itself, but not after it has lost interest.
            socket.once('error', (error) => done(error, false)).on('error', () => undefined);
            socket.once('connect', () => done(null, { connection: socket }));
            if (signal.aborted) socket.destroy(new Error('aborted'));
          },
        };
        await createTransport(options).sendMail(mailOf(letter, senderOf(server, letter), to));
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
    maxResponseSize: ANSWER_BYTES_MAX,
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** User info that is not percent-encoded is taken as it stands. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Many servers take mail of an account from its own address only. */
function senderOf(
  { auth }: { readonly auth?: { readonly user: string } },
  letter: AlertMessage,
): string {
  const { user = '' } = auth ?? {};
  if (/^[^\s@,;:<>"()[\]\\\p{C}]+@[a-z0-9.-]+$/iu.test(user)) return user;
  const host = letter.domain.replace(/:[0-9]+$/, '');
  // A mail address takes no address of a machine in the form that domains have.
  return /^[a-z0-9_.-]*[a-z][a-z0-9_.-]*$/.test(host) ? `leat@${host}` : 'leat@localhost';
}

/** Subject and text are made of a sentence without line breaks: no name can add a header. */
function mailOf({ alert, domain }: AlertMessage, from: string, to: string) {
  const { kind, tenant, at } = alert;
  const about = isStreamAlert(alert) ? alert.stream.id : idOf(alert.key);
  const host = from.slice(from.lastIndexOf('@') + 1);
  return {
    from: { name: 'Leat', address: from },
    to: { name: '', address: to },
    subject: `[Leat ${tenant}] ${alertText(alert)}`,
    text: textOf(alert, domain),
    date: new Date(at),
    // The same alert sent again is the same message, so that mail systems can leave it out.
    messageId: `<${kind}.${about}.${at}@${host}>`,
    // RFC 3834: nobody answers it with an out-of-office note.
    headers: { 'auto-submitted': 'auto-generated' },
  };
}

/** The key of a system alert in the characters of a `Message-ID` (RFC 5322 section 3.6.4). */
function idOf(key: string): string {
  return key.replaceAll(/[^A-Za-z0-9._-]+/g, '-').slice(0, 100);
}

function textOf(alert: Alert, domain: string): string {
  const { kind, stream, tenant, at } = alert;
  const list = `The failures are listed by GET /api/v2/event-streams/${stream?.id}/deliveries`;
  return [
    alertText(alert),
    '',
    `Alert         ${kind}`,
    `Tenant        ${tenant}, ${domain}`,
    ...(stream === undefined ? [] : [`Event stream  ${stream.id}`]),
    `Seen          ${formatTime(at)}`,
    '',
    ...(isStreamAlert(alert) ? [list, ''] : []),
  ].join('\n');
}

/** Words of the library (nodemailer.com, Error codes), with the answer's number where there is one. */
function reasonOf(error: unknown): string {
  const { responseCode } = Object(error) as { readonly responseCode?: unknown };
  const word = labelOf(error);
  const said = sayings[word] ?? word;
  return typeof responseCode === 'number' ? `${said}, answer ${responseCode}` : said;
}

const sayings: Readonly<Record<string, string>> = {
  EAUTH: 'the server refuses the login (EAUTH)',
  EENVELOPE: 'the server refuses an address (EENVELOPE)',
  ETLS: 'no TLS with the server (ETLS)',
};
