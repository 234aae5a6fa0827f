import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createAlertMail } from '../../src/alerting/mail-channel.ts';
import { AlertNotSent } from '../../src/alerting/channel.ts';
import { exampleAlert as alert } from '../helpers/alerts.ts';
import { startRawEndpoint } from '../helpers/endpoint.ts';
import { type MailServer, startMailServer } from '../helpers/smtp.ts';
import { freePort } from '../helpers/leat.ts';

const message = {
  alert,
  domain: 'leat.example.com:8443',
  url: 'https://leat.example.com:8443/',
};
const login = { user: 'alerts@mail.example', pass: 'p@ss:w/rd 100%' };
const userInfo = `${encodeURIComponent(login.user)}:${encodeURIComponent(login.pass)}@`;
const to = 'ops@example.com';
const never = new AbortController().signal;

type MailServerOptions = Parameters<typeof startMailServer>[0];

async function serve(t: TestContext, options: MailServerOptions = {}): Promise<MailServer> {
  const server = await startMailServer(options);
  t.after(() => server.close());
  return server;
}

describe('the mail of an alert', () => {
  test('a mail has the sentence as its subject and all fields in its text', async (t) => {
    const server = await serve(t);
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${server.port}`, to });
    await mail.send(message, never);
    assert.equal(server.mails.length, 1);
    const [{ parsed, ...envelope } = await server.mail(1)] = server.mails;
    assert.deepEqual(
      [envelope.from, envelope.to, envelope.secure],
      ['leat@leat.example.com', [to], false],
    );
    assert.equal(
      parsed.subject,
      '[Leat main] crm: 12 new delivery failures (340 open, 12 in a row), last: timeout',
    );
    assert.deepEqual(parsed.from, { name: 'Leat', address: 'leat@leat.example.com' });
    assert.match(
      parsed.text ?? '',
      /^crm: 12 new delivery failures .*\n\nAlert +delivery_failures\n/,
    );
    assert.match(parsed.text ?? '', /est_MASi45ub7Qe4ZE36UT5G6c/);
    assert.equal(parsed.date, '2026-03-01T09:35:00.000Z');
    assert.ok(envelope.source.includes('Auto-Submitted: auto-generated'));
  });

  test('a mail that is sent again has the same Message-ID', async (t) => {
    const server = await serve(t);
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${server.port}`, to });
    await mail.send(message, never);
    await mail.send(message, never);
    await mail.send({ ...message, alert: { ...alert, at: alert.at + 1 } }, never);
    const [first, second, third] = server.mails.map(({ parsed }) => parsed.messageId);
    assert.equal(first, second);
    assert.notEqual(first, third);
  });

  test('the name of a stream cannot add a header or a recipient', async (t) => {
    const server = await serve(t);
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${server.port}`, to });
    const name =
      'x\r\nBcc: evil@example.net\r\n\r\n.\r\nRCPT TO:<evil@example.net>\nSubject: y\u0000é';
    await mail.send({ ...message, alert: { ...alert, stream: { ...alert.stream, name } } }, never);
    const { parsed, to: recipients, source } = await server.mail(1);
    assert.deepEqual(recipients, [to]);
    assert.deepEqual(parsed.bcc ?? [], []);
    assert.match(parsed.subject ?? '', /^\[Leat main\] x Bcc: evil＠example\.net \./);
    assert.doesNotMatch(source, /^(Bcc|RCPT)/m);
    assert.equal(source.match(/^Subject:/gm)?.length, 1);
  });

  test('the sender is the account of the URL, else at the domain of the tenant', async (t) => {
    const server = await serve(t, { login });
    const url = `smtp://${userInfo}127.0.0.1:${server.port}`;
    await createAlertMail({ smtpUrl: url, to }).send(message, never);
    const open = await serve(t);
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${open.port}`, to });
    for (const domain of ['[::1]:8080', '127.0.0.1:8080', 'localhost:8080']) {
      await mail.send({ ...message, domain }, never);
    }
    assert.equal(server.mails[0]?.from, login.user);
    assert.deepEqual(
      open.mails.map(({ from }) => from),
      Array(3).fill('leat@localhost'),
    );
  });
});

describe('a mail server', () => {
  test('the login of the URL is decoded', async (t) => {
    const server = await serve(t, { login });
    const url = `smtp://${userInfo}127.0.0.1:${server.port}`;
    await createAlertMail({ smtpUrl: url, to }).send(message, never);
    assert.equal(server.mails[0]?.user, login.user);
  });

  test('STARTTLS: the mail is sent over TLS', async (t) => {
    const server = await serve(t, { tls: 'starttls', login });
    const url = `smtp://${userInfo}localhost:${server.port}`;
    await createAlertMail({ smtpUrl: url, to }).send(message, never);
    assert.deepEqual([server.mails[0]?.secure, server.mails[0]?.user], [true, login.user]);
  });

  test('smtps://: the mail is sent over TLS, on this machine with any certificate', async (t) => {
    const server = await serve(t, { tls: 'smtps', selfSigned: true });
    const url = `smtps://localhost:${server.port}`;
    await createAlertMail({ smtpUrl: url, to }).send(message, never);
    assert.equal(server.mails[0]?.secure, true);
  });

  // An address of this machine that is not treated as loopback, so that the rules for other machines apply.
  const other = '[::ffff:127.0.0.1]';

  test('a server on another machine receives no password without TLS', async (t) => {
    const server = await serve(t, { login });
    const url = `smtp://${userInfo}${other}:${server.port}`;
    await assert.rejects(createAlertMail({ smtpUrl: url, to }).send(message, never), {
      message: 'no TLS with the server (ETLS), response 500',
    });
    const open = await serve(t);
    await createAlertMail({ smtpUrl: `smtp://${other}:${open.port}`, to }).send(message, never);
    assert.deepEqual([server.mails.length, open.mails.length], [0, 1]);
  });

  test('a server on another machine must have a valid certificate', async (t) => {
    for (const tls of ['smtps', 'starttls'] as const) {
      const server = await serve(t, { tls, selfSigned: true });
      const scheme = tls === 'smtps' ? 'smtps' : 'smtp';
      const mail = createAlertMail({ smtpUrl: `${scheme}://${other}:${server.port}`, to });
      await assert.rejects(mail.send(message, never), /^AlertNotSent: (no TLS|[A-Z_]+$)/);
      assert.equal(server.mails.length, 0);
    }
  });

  test('a rejected mail: the reason has neither text of the server nor the password', async (t) => {
    const server = await serve(t, { login });
    const wrong = `smtp://someone:wrong-secret@127.0.0.1:${server.port}`;
    const rejected = createAlertMail({ smtpUrl: wrong, to }).send(message, never);
    await assert.rejects(rejected, {
      name: 'AlertNotSent',
      message: 'the server rejects the login (EAUTH), response 535',
    });
    const right = createAlertMail({ smtpUrl: `smtp://${userInfo}127.0.0.1:${server.port}`, to });
    server.refuse({ code: 451, text: `try later, ${login.pass}` });
    await assert.rejects(right.send(message, never), {
      name: 'AlertNotSent',
      message: 'EMESSAGE, response 451',
    });
    server.refuse(undefined);
    await right.send(message, never);
    assert.equal(server.mails.length, 1);
  });

  test('no server: the reason is the error code', async () => {
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${await freePort()}`, to });
    await assert.rejects(mail.send(message, never), { message: 'ECONNREFUSED' });
  });

  test('a server without a response: an abort ends the send and closes the connection', async (t) => {
    const closed = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    const { createServer } = await import('node:net');
    const server = createServer((socket) => {
      socket.on('error', () => undefined).on('close', () => closed.resolve());
      opened.resolve();
    }).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    const { port } = server.address() as { port: number };
    const cut = new AbortController();
    const sent = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${port}`, to }).send(
      message,
      cut.signal,
    );
    const refused = assert.rejects(sent, AlertNotSent);
    await opened.promise;
    cut.abort();
    await Promise.all([refused, closed.promise]);
  });

  test('a server that does not use SMTP: an abort ends the send', async (t) => {
    const raw = await startRawEndpoint((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    t.after(() => raw.close());
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${raw.port}`, to });
    const cut = new AbortController();
    const sent = mail.send(message, cut.signal);
    const ended = assert.rejects(sent, AlertNotSent);
    cut.abort();
    await ended;
  });
});
