import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { indented, readJson, terminalSafe, writeJson } from '../../src/cli/json.ts';

describe('JSON output', () => {
  test('JSON output: keeps the digits of numbers that a double cannot hold', () => {
    const text = '{"a":12345678901234567890,"b":[1.10,1e400,-0],"c":"12345678901234567890"}';
    assert.equal(writeJson(readJson(text)), text);
    assert.equal(indented(readJson('{"a":1.0}')), '{\n  "a": 1.0\n}');
  });

  test('JSON output: escapes what a terminal might obey, and keeps the value', () => {
    const text = '{"a":"\u007F\u009B31m\u202E\u2028 é日👍"}';
    const safe = terminalSafe(text);
    assert.equal(safe, '{"a":"\\u007f\\u009b31m\\u202e\\u2028 é日👍"}');
    assert.deepEqual(JSON.parse(safe), JSON.parse(text));
    assert.equal(terminalSafe('"\u{E0001}"'), '"\\udb40\\udc01"');
  });

  test('JSON output: keeps JSON that a server indents by tabs', () => {
    const value = { a: ['\t\r\n\u2028'] };
    const tabbed = JSON.stringify(value, undefined, '\t').replaceAll('\n', '\r\n');
    assert.deepEqual(JSON.parse(terminalSafe(tabbed)), value);
  });
});
