import { once } from 'node:events';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';
import { selfSigned, trusted } from './certificates.ts';
import { waitFor } from './leat.ts';

/** A real mail server on loopback that stores the mails it receives. */
export interface MailServer {
  readonly port: number;
  readonly mails: readonly ReceivedMail[];
  /** Waits for the `count`-th mail (1-indexed). */
  mail(count: number): Promise<ReceivedMail>;
  /** Refuses later mails with this reply; accepts them with `undefined`. */
  refuse(reply: { readonly code: number; readonly text: string } | undefined): void;
  close(): Promise<void>;
}

export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** The user that logged in; absent without a login. */
  readonly user: string | undefined;
  readonly secure: boolean;
  /** The received text. */
  readonly source: string;
  readonly parsed: Email;
}

export interface MailServerOptions {
  /** TLS from the start, offered, or not at all; `none` by default. */
  readonly tls?: 'none' | 'starttls' | 'smtps';
  /** The required login. */
  readonly login?: { readonly user: string; readonly pass: string };
  /** Presents an untrusted certificate. */
  readonly selfSigned?: boolean;
  /** 127.0.0.1 by default. */
  readonly host?: string;
}

export async function startMailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const { tls = 'none', login, host = '127.0.0.1' } = options;
  const mails: ReceivedMail[] = [];
  let refusal: { readonly code: number; readonly text: string } | undefined;
  const keep = async (
    source: string,
    { envelope, user, secure }: Pick<SMTPServerSession, 'envelope' | 'user' | 'secure'>,
    done: () => void,
  ): Promise<void> => {
    const { mailFrom, rcptTo } = envelope;
    const from = mailFrom === false ? '' : mailFrom.address;
    const to = rcptTo.map(({ address }) => address);
    mails.push({ from, to, user, secure, source, parsed: await PostalMime.parse(source) });
    done();
  };
  const serverOptions: SMTPServerOptions = {
    ...(options.selfSigned === true ? selfSigned : trusted),
    secure: tls === 'smtps',
    disabledCommands: [
      ...(tls === 'starttls' ? [] : ['STARTTLS']),
      ...(login === undefined ? ['AUTH'] : []),
    ],
    authOptional: login === undefined,
    allowInsecureAuth: true,
    closeTimeout: 100,
    onAuth: ({ username, password }, _session, done) => {
      const isRight = username === login?.user && password === login?.pass;
      if (isRight) done(null, { user: username });
      else done(new Error('Invalid username or password'));
    },
    onData: (stream, session, done) => {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        if (refusal !== undefined) {
          done(Object.assign(new Error(refusal.text), { responseCode: refusal.code }));
          return;
        }
        const { envelope, user, secure } = session;
        void keep(Buffer.concat(chunks).toString(), { envelope, user, secure }, done);
      });
    },
  };
  const server = new SMTPServer(serverOptions);
  // Some tests expect a connection that is cut, or a refused certificate.
  server.on('error', () => undefined);
  server.listen(0, host);
  await once(server.server, 'listening');
  const address = server.server.address();
  if (typeof address !== 'object' || address === null) throw new Error('no address');
  return {
    port: address.port,
    mails,
    mail: (count) =>
      waitFor(`mail ${count}`, () => mails[count - 1], { progress: () => mails.length }),
    refuse: (reply) => {
      refusal = reply;
    },
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
