import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { openapiDocument } from '../../../src/api/reference/openapi.ts';
import {
  printable,
  printableWithoutOuterBlanks,
  webReference,
  withoutOuterBlanks,
} from '../../../src/schemas/text-patterns.ts';
import { skipWithout } from '../../deploy/fixture.ts';

/** Returns the patterns of a JSON Schema: the values of `pattern`, and the names of pattern properties. */
function patternsOf(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  return Object.entries(schema).flatMap(([name, value]) => {
    if (name === 'pattern' && typeof value === 'string') return [value];
    const ofNames = name === 'patternProperties' ? Object.keys(value as object) : [];
    return [...ofNames, ...patternsOf(value)];
  });
}

const patterns = [...new Set(patternsOf(JSON.parse(JSON.stringify(openapiDocument()))))];

describe('the patterns of the OpenAPI document', () => {
  test('the document has patterns, and each is one of ECMAScript', () => {
    assert.ok(patterns.length > 20, `${patterns.length} patterns`);
    for (const pattern of patterns) assert.ok(new RegExp(pattern, 'u'), pattern);
  });

  test('no pattern has what RE2 (Go) and Rust lack', () => {
    for (const pattern of patterns) {
      const groups = pattern.match(/\(\?../g) ?? [];
      for (const group of groups) assert.match(group, /^\(\?:/, `${pattern} has ${group}`);
      const others = pattern.replaceAll(/\\(?:[sS]|x[0-9A-Fa-f]{2}|[-[\]+.])/g, '');
      assert.doesNotMatch(others, /\\/, `${pattern} has another escape`);
      for (const [, count] of pattern.matchAll(/\{[0-9]*,?([0-9]+)\}/g)) {
        assert.ok(Number(count) <= 1000, pattern);
      }
    }
  });

  test('Python compiles every pattern', { skip: skipWithout('python3', '--version') }, () => {
    const program =
      'import json,re,sys\nfor pattern in json.load(sys.stdin): re.compile(pattern)\nprint("compiled")';
    const input = JSON.stringify(patterns);
    const printed = execFileSync('python3', ['-c', program], { input, encoding: 'utf8' });
    assert.equal(printed.trim(), 'compiled');
  });
});

describe('text patterns', () => {
  test('printable has every character but those of the category Cc', () => {
    const pattern = new RegExp(printable, 'u');
    for (let code = 0; code <= 0xffff; code += 1) {
      const character = String.fromCharCode(code);
      assert.equal(pattern.test(character), !/\p{Cc}/u.test(character), code.toString(16));
    }
  });

  test('blanks at the ends: neither of a printable text nor of any text, but within', () => {
    const inner = ['a', 'a b', 'ä\u00a0b', '-', '😀 😀'];
    const outer = [' a', 'a ', ' ', '\u00a0a', 'a\u3000', '\ufeffa', '  '];
    for (const pattern of [printableWithoutOuterBlanks, withoutOuterBlanks]) {
      const expression = new RegExp(pattern, 'u');
      for (const text of inner) assert.ok(expression.test(text), `${pattern} ${text}`);
      for (const text of outer) assert.ok(!expression.test(text), `${pattern} ${text}`);
    }
    const multiLine = new RegExp(withoutOuterBlanks, 'u');
    assert.deepEqual(
      ['', 'a\nb', 'a\n', '\ta'].map((text) => multiLine.test(text)),
      [true, true, false, false],
    );
  });

  test('webReference: a URL of the web or a reference without a scheme', () => {
    const pattern = new RegExp(webReference, 'u');
    const web = [
      'https://a',
      'HTTP://a/b?c#d:e',
      'a.png',
      '/a:b',
      'a/b:c',
      '?a:b',
      '#:',
      '//h/x y',
    ];
    for (const text of web) assert.ok(pattern.test(text), text);
    const others = [
      '',
      'data:x',
      'javascript:alert(1)',
      ' a',
      ' javascript:x',
      'http:',
      'https://',
      'a\u0007',
    ];
    for (const text of [...others, 'https://a b', ':', 'a/\n'])
      assert.ok(!pattern.test(text), text);
  });
});
