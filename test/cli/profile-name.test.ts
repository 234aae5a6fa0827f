import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freeName, nameBesides } from '../../src/cli/profile-name.ts';

const url = 'http://127.0.0.1:8080';
const login = (server: string) => ({
  url: server,
  clientId: 'a',
  clientSecret: 'b',
  audience: '/',
});

test('freeName: the name itself, else the first number that no other login has', () => {
  assert.equal(freeName('dev', []), 'dev');
  assert.equal(freeName('dev', ['default', 'dev']), 'dev-2');
  assert.equal(freeName('dev', ['default', 'dev', 'dev-2', 'dev-3']), 'dev-4');
});

test('nameBesides: the default login, unless that is one for another server', () => {
  const other = login('https://leat.example.com');
  assert.equal(nameBesides({}, url), undefined);
  assert.equal(nameBesides({ default: login(url) }, url), undefined);
  assert.equal(nameBesides({ default: other }, url), 'local');
  assert.equal(nameBesides({ default: other, local: other }, url), 'local-2');
  assert.equal(nameBesides({ default: other, local: login(url) }, url), 'local');
});
