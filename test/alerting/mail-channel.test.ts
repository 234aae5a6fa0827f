import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createAlertMail } from '../../src/alerting/mail-channel.ts';
import { AlertNotSent } from '../../src/alerting/channel.ts';
import { exampleAlert as alert } from '../helpers/alerts.ts';
import { startRawEndpoint } from '../helpers/endpoint.ts';
import { type MailServer, type MailServerWish, startMailServer } from '../helpers/smtp.ts';
import { freePort } from '../helpers/leat.ts';

const letter = { alert, domain: 'leat.example.com:8443' };
const login = { user: 'alerts@mail.example', pass: 'p@ss:w/rd 100%' };
const userInfo = `${encodeURIComponent(login.user)}:${encodeURIComponent(login.pass)}@`;
const to = 'ops@example.com';
const never = new AbortController().signal;

async function serve(t: TestContext, wish: MailServerWish = {}): Promise<MailServer> {
  const server = await startMailServer(wish);
  t.after(() => server.close());
  return server;
}

describe('a mailed alert', () => {
  test('has the sentence as its subject and all that is known in its text', async (t) => {
    const server = await serve(t);
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${server.port}`, to });
    await mail.send(letter, never);
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

  test('sent again is the same message to a mail system', async (t) => {
    const server = await serve(t);
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${server.port}`, to });
    await mail.send(letter, never);
    await mail.send(letter, never);
    await mail.send({ ...letter, alert: { ...alert, at: alert.at + 1 } }, never);
    const [first, second, third] = server.mails.map(({ parsed }) => parsed.messageId);
    assert.equal(first, second);
    assert.notEqual(first, third);
  });

  test('gets no header and no recipient from a name', async (t) => {
    const server = await serve(t);
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${server.port}`, to });
    const name =
      'x\r\nBcc: evil@example.net\r\n\r\n.\r\nRCPT TO:<evil@example.net>\nSubject: y\u0000é';
    await mail.send({ ...letter, alert: { ...alert, stream: { ...alert.stream, name } } }, never);
    const { parsed, to: recipients, source } = await server.mail(1);
    assert.deepEqual(recipients, [to]);
    assert.deepEqual(parsed.bcc ?? [], []);
    assert.match(parsed.subject ?? '', /^\[Leat main\] x Bcc: evil＠example\.net \./);
    assert.doesNotMatch(source, /^(Bcc|RCPT)/m);
    assert.equal(source.match(/^Subject:/gm)?.length, 1);
  });

  test('comes from the account where there is one, else from the tenant', async (t) => {
    const server = await serve(t, { login });
    const url = `smtp://${userInfo}127.0.0.1:${server.port}`;
    await createAlertMail({ smtpUrl: url, to }).send(letter, never);
    const open = await serve(t);
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${open.port}`, to });
    for (const domain of ['[::1]:8080', '127.0.0.1:8080', 'localhost:8080']) {
      await mail.send({ alert, domain }, never);
    }
    assert.equal(server.mails[0]?.from, login.user);
    assert.deepEqual(
      open.mails.map(({ from }) => from),
      Array(3).fill('leat@localhost'),
    );
  });
});

describe('a mail server', () => {
  test('gets the login of the URL, decoded', async (t) => {
    const server = await serve(t, { login });
    const url = `smtp://${userInfo}127.0.0.1:${server.port}`;
    await createAlertMail({ smtpUrl: url, to }).send(letter, never);
    assert.equal(server.mails[0]?.user, login.user);
  });

  test('that offers STARTTLS is spoken to over TLS', async (t) => {
    const server = await serve(t, { tls: 'starttls', login });
    const url = `smtp://${userInfo}localhost:${server.port}`;
    await createAlertMail({ smtpUrl: url, to }).send(letter, never);
    assert.deepEqual([server.mails[0]?.secure, server.mails[0]?.user], [true, login.user]);
  });

  test('of smtps:// is spoken to over TLS from the start, on the machine with any certificate', async (t) => {
    const server = await serve(t, { tls: 'smtps', selfSigned: true });
    const url = `smtps://localhost:${server.port}`;
    await createAlertMail({ smtpUrl: url, to }).send(letter, never);
    assert.equal(server.mails[0]?.secure, true);
  });

  // An address of this machine that is not taken for one, so that the rules of others hold.
  const other = '[::ffff:127.0.0.1]';

  test('elsewhere gets no password without TLS', async (t) => {
    const server = await serve(t, { login });
    const url = `smtp://${userInfo}${other}:${server.port}`;
    await assert.rejects(createAlertMail({ smtpUrl: url, to }).send(letter, never), {
      message: 'no TLS with the server (ETLS), answer 500',
    });
    const open = await serve(t);
    await createAlertMail({ smtpUrl: `smtp://${other}:${open.port}`, to }).send(letter, never);
    assert.deepEqual([server.mails.length, open.mails.length], [0, 1]);
  });

  test('elsewhere has to have a certificate that holds', async (t) => {
    for (const tls of ['smtps', 'starttls'] as const) {
      const server = await serve(t, { tls, selfSigned: true });
      const scheme = tls === 'smtps' ? 'smtps' : 'smtp';
      const mail = createAlertMail({ smtpUrl: `${scheme}://${other}:${server.port}`, to });
      await assert.rejects(mail.send(letter, never), /^AlertNotSent: (no TLS|[A-Z_]+$)/);
      assert.equal(server.mails.length, 0);
    }
  });

  test('that refuses is told in a few words, without its own and without the password', async (t) => {
    const server = await serve(t, { login });
    const wrong = `smtp://someone:wrong-secret@127.0.0.1:${server.port}`;
    const refused = createAlertMail({ smtpUrl: wrong, to }).send(letter, never);
    await assert.rejects(refused, {
      name: 'AlertNotSent',
      message: 'the server refuses the login (EAUTH), answer 535',
    });
    const right = createAlertMail({ smtpUrl: `smtp://${userInfo}127.0.0.1:${server.port}`, to });
    server.refuse({ code: 451, text: `try later, ${login.pass}` });
    await assert.rejects(right.send(letter, never), {
      name: 'AlertNotSent',
      message: 'EMESSAGE, answer 451',
    });
    server.refuse(undefined);
    await right.send(letter, never);
    assert.equal(server.mails.length, 1);
  });

  test('that is not there is told by its error', async () => {
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${await freePort()}`, to });
    await assert.rejects(mail.send(letter, never), { message: 'ECONNREFUSED' });
  });

  test('that says nothing is left when aborted, and its connection is closed', async (t) => {
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
      letter,
      cut.signal,
    );
    const refused = assert.rejects(sent, AlertNotSent);
    await opened.promise;
    cut.abort();
    await Promise.all([refused, closed.promise]);
  });

  test('that is none is not waited for', async (t) => {
    const raw = await startRawEndpoint((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    t.after(() => raw.close());
    const mail = createAlertMail({ smtpUrl: `smtp://127.0.0.1:${raw.port}`, to });
    const cut = new AbortController();
    const sent = mail.send(letter, cut.signal);
    const ended = assert.rejects(sent, AlertNotSent);
    cut.abort();
    await ended;
  });
});
