import type { Mutant } from './mutant.ts';

/**
 * Mutants of who may change access, of times of changes, of the audit log, of how stored secrets are sealed,
 * and of what is stored of texts of receivers.
 */
export const accessMutants: readonly Mutant[] = [
  {
    name: 'a change of a user that may be as old as the one before it',
    file: 'core/clock.ts',
    before: 'return Math.max(now, before + 1);',
    after: 'return now;',
    killedBy: {
      file: 'test/api/change-times.test.ts',
      title: 'concurrent PATCHes of a user: the event with the final state has the latest time',
    },
  },
  {
    name: 'a change of access that is decided on the access from before its transaction',
    file: 'api/guard.ts',
    before: 'accept({ ...authentication, token: authentication.tokenFor(access) });',
    after: 'accept(authentication);',
    killedBy: {
      file: 'test/api/revoked-callers.test.ts',
      title: 'serves the revoked caller for a second, except for changes of access',
    },
  },
  {
    name: 'PostgreSQL: a change of access that does not exclude the revocation of its caller',
    file: 'store/commands/store-commands.ts',
    before: 'yield* lockAccess(tenant);',
    after: '',
    killedBy: {
      file: 'test/store/postgres/shared.test.ts',
      title: 'a revocation waits for a change of access that its guard has let pass',
    },
  },
  {
    name: 'a token of a revoked signing key that still changes access',
    file: 'store/commands/store-commands.ts',
    before: 'return key !== undefined;',
    after: 'return true;',
    killedBy: {
      file: 'test/store/access.test.ts',
      title: 'guarded: the guard receives what the caller may do now, and whether its key exists',
    },
  },
  {
    name: 'a token that is not verified again when its body arrives later',
    file: 'api/http/serve.ts',
    before: 'if (eventLoopTurn() === turn) return;',
    after: 'return;',
    killedBy: {
      file: 'test/api/revoked-callers.test.ts',
      title: 'is in the audit log where its body arrived after the revocation',
    },
  },
  {
    name: 'a token that is revoked only by a later version of the credentials',
    file: 'auth/verify.ts',
    before: 'claims.credentialsVersion !== client.credentialsVersion',
    after: 'Number(claims.credentialsVersion) < client.credentialsVersion',
    killedBy: {
      file: 'test/auth/verify.test.ts',
      title: 'revoked: a token whose version of the credentials is not the one stored, in any form',
    },
  },
  {
    name: 'a token that keeps all scopes while its client has one of them',
    file: 'auth/verify.ts',
    before: 'return scopes.every(counts) ? scopes : scopes.filter(counts);',
    after: 'return scopes.some(counts) ? scopes : [];',
    killedBy: {
      file: 'test/auth/verify.test.ts',
      title:
        'scopes: those that the grant of the client holds now, and never more than the token has',
    },
  },
  {
    name: 'an entry that is recorded after the transaction of its change',
    file: 'store/commands/recording.ts',
    before: 'return aroundChanges(on, (command) => recorded(command(), entry));',
    after: `const { read, transact } = on.commands;
  const late: Purposes['commands']['transact'] = async (durability, command) => {
    const result = await transact(durability, command);
    await transact(durability, function* () {
      if (isChanged(result)) yield* record(entry);
    });
    return result;
  };
  return { ...on, commands: { read, transact: late } };`,
    killedBy: {
      file: 'test/store/access.test.ts',
      title: 'recording: a change whose entry cannot be stored is not made',
    },
  },
  {
    name: 'a stream whose second disabling has the entry of the first',
    file: 'store/rules/audit-log.ts',
    before: 'String(tenant), stream, String(version)]',
    after: 'String(tenant), stream, String(version > 0)]',
    killedBy: {
      file: 'test/store/access.test.ts',
      title: 'settle: each disabling of a stream leaves an entry of its own',
    },
  },
  {
    name: 'a client that fills the bound on entries of its tenant',
    file: 'api/audit-minute.ts',
    before: 'ofOwner >= entriesMax[type] || ofSource >= sourceMax[type]',
    after: 'Math.max(ofOwner, ofSource) >= Math.max(entriesMax[type], sourceMax[type])',
    killedBy: {
      file: 'test/api/audit-recorder.test.ts',
      title:
        'note: one network or client uses up a part of a bound, and entries of others stay apart',
    },
  },
  {
    name: 'a refused request whose whole path is in its entry',
    file: 'api/audit-entry.ts',
    before: 'const shownPath = pathOf(path, sent, isOwnId);',
    after: 'const shownPath = pathOf(path, sent, () => true);',
    killedBy: {
      file: 'test/api/audited.test.ts',
      title: 'audited: no entry has a secret of a request, in any encoding',
    },
  },
  {
    name: 'a sealed value that opens in every row of its table',
    file: 'store/seal.ts',
    before: 'const place = JSON.stringify([table, tenant, row, column]);',
    after: 'const place = JSON.stringify([table, tenant, column]);',
    killedBy: {
      file: 'test/store/seal.test.ts',
      title: 'seal: a value copied to another row does not open there',
    },
  },
  {
    name: 'a rotation that ends after the first table',
    file: 'store/commands/secrets.ts',
    before: 'return next && firstOf(next);',
    after: 'return undefined;',
    killedBy: {
      file: 'test/store/secrets.test.ts',
      title: 'rotation: the former key is needed until its end, and not afterwards',
    },
  },
  {
    name: 'a rotation to a third key while seals of the first are left',
    file: 'store/rules/rotation.ts',
    before:
      'if (former !== undefined && former !== target) return { unfinished: { key, former } };',
    after: '',
    killedBy: {
      file: 'test/store/secrets.test.ts',
      title: 'rotation: a change to a third key is refused until the first one is complete',
    },
  },
  {
    name: 'a former rotation that ends the present one',
    file: 'store/commands/secrets.ts',
    before: 'if (!isMarked(yield* lockedRow(), mark)) return false;',
    after: '',
    killedBy: {
      file: 'test/store/secrets.test.ts',
      title: 'rotation: a step and the end of one that was replaced meanwhile do nothing',
    },
  },
  {
    name: 'a text of a receiver that is decoded once only',
    file: 'core/redact.ts',
    before: 'const decodingsMax = 2;',
    after: 'const decodingsMax = 1;',
    killedBy: {
      file: 'test/core/redact-encodings.test.ts',
      title:
        'redact leaves no secret in base64 with escapes, line breaks, or JSON around the secret',
    },
  },
  {
    name: 'a text of a receiver whose base64 is read from its first digit only',
    file: 'core/redact.ts',
    before: '...[0, 1, 2, 3].map(',
    after: '...[0].map(',
    killedBy: {
      file: 'test/core/redact-encodings.test.ts',
      title: 'redact leaves no secret in base64, whatever is encoded before and after it',
    },
  },
  {
    name: 'a text of a receiver whose end is searched as if nothing followed it',
    file: 'core/redact.ts',
    before: 'return cut && reading',
    after: 'return false && reading',
    killedBy: {
      file: 'test/core/redact.test.ts',
      title: 'the first eight characters of a secret at the end of a cut text count as the secret',
    },
  },
  {
    name: 'a text of a receiver that is stored when the time is over',
    file: 'core/redact.ts',
    before: "isLate()) return { withheld: 'time' };",
    after: 'isLate()) break;',
    killedBy: {
      file: 'test/core/redact.test.ts',
      title: 'redact withholds what it has not searched to its end when the time is over',
    },
  },
  {
    name: 'a text of a receiver in which short secrets stay',
    file: 'core/redact.ts',
    before: 'return { text: masked(text, sent) };',
    after: 'return { text };',
    killedBy: {
      file: 'test/core/redact.test.ts',
      title: 'redact withholds a text with a secret of eight characters and replaces one of seven',
    },
  },
  {
    name: 'a text of a receiver that is searched for no access token',
    file: 'delivery/outcome.ts',
    before: ', ...(request?.tokens ?? [])]',
    after: ']',
    killedBy: {
      file: 'test/delivery/outcome.test.ts',
      title:
        'oauth2_client_credentials: no form of a token that was sent, or replaced, gets into the error message',
    },
  },
];
