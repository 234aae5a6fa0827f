import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { headerOf, partsOfTarget, statusOfHead } from '../../src/core/request-head.ts';

function statusOf(
  headers: readonly string[],
  { httpVersion = '1.1', target = '/' }: { httpVersion?: string; target?: string } = {},
): number | undefined {
  const rawHeaders = headers.flatMap((line) => {
    const at = line.indexOf(':');
    return [line.slice(0, at), line.slice(at + 1).trim()];
  });
  return statusOfHead({ httpVersion, rawHeaders, target });
}

describe('Host', () => {
  test('Host: a host name or an address, with or without a port', () => {
    for (const host of [
      'a.example',
      'A_b.example:80',
      '127.0.0.1:',
      '[::1]:8080',
      '[::1]',
      '[::ffff:192.0.2.1]',
      'a.example.',
      'a.example.:80',
      'x%2Ey',
    ]) {
      assert.equal(statusOf([`Host: ${host}`]), undefined, host);
    }
  });

  test('Host: anything that is no host with a port is 400', () => {
    const others = [
      'a b',
      'a/b',
      'a@b',
      'http://a',
      'a:b',
      'a:80:90',
      '[::1',
      '::1',
      '[x]',
      '',
      ':',
      ':8080',
      '.',
      '..',
      '.a',
      'a..b',
      'a..:80',
      '[]',
      '[:]',
      '[1.2.3.4]',
      '[:::1]',
      'a%',
      'a%zz',
      '\u00e4',
    ];
    for (const host of [...others, 'a?b', 'a#b', 'a\\b', '"a"', '<a>', 'a\tb']) {
      assert.equal(statusOf([`Host: ${host}`]), 400, host);
    }
  });

  test('Host: none in HTTP/1.1, or several, is 400', () => {
    assert.equal(statusOf([]), 400);
    assert.equal(statusOf([], { httpVersion: '1.0' }), undefined);
    for (const httpVersion of ['1.0', '1.1']) {
      assert.equal(statusOf(['Host: a', 'HOST: a'], { httpVersion }), 400);
    }
    assert.equal(statusOf([], { target: 'http://a/' }), 400, 'also in absolute form');
  });
});

describe('version', () => {
  test('version: other than 1.0 and 1.1 is 505', () => {
    for (const httpVersion of ['0.9', '2.0', '1.2', '']) {
      assert.equal(statusOf(['Host: a'], { httpVersion }), 505, httpVersion);
    }
  });
});

describe('Transfer-Encoding', () => {
  test('Transfer-Encoding: chunked is accepted in any case', () => {
    for (const value of ['chunked', 'Chunked', 'CHUNKED', '\tchunked ']) {
      assert.equal(statusOf(['Host: a', `Transfer-Encoding: ${value}`]), undefined, value);
    }
  });

  test('Transfer-Encoding: any coding before chunked is 501', () => {
    for (const value of [
      'gzip, chunked',
      'gzip,chunked',
      'chunked, chunked',
      ',chunked',
      'x , chunked',
    ]) {
      assert.equal(statusOf(['Host: a', `transfer-encoding: ${value}`]), 501, value);
    }
    const lines = ['Host: a', 'Transfer-Encoding: gzip', 'Transfer-Encoding: chunked'];
    assert.equal(statusOf(lines), 501);
  });

  test('Transfer-Encoding: another last coding than chunked is 400', () => {
    for (const value of [
      '',
      'gzip',
      'identity',
      'chunked, gzip',
      'chunked,',
      'xchunked',
      '"chunked"',
      'chunked;a=b',
    ]) {
      assert.equal(statusOf(['Host: a', `Transfer-Encoding: ${value}`]), 400, value);
    }
  });

  test('Transfer-Encoding: in HTTP/1.0 is 400', () => {
    assert.equal(statusOf(['Host: a', 'Transfer-Encoding: chunked'], { httpVersion: '1.0' }), 400);
  });
});

describe('request target', () => {
  const cases: [target: string, authority: string | undefined, path: string][] = [
    ['/', undefined, '/'],
    ['//a/b', undefined, '//a/b'],
    ['/a?b=http://c/', undefined, '/a?b=http://c/'],
    ['*', undefined, '*'],
    ['http://a.example', 'a.example', '/'],
    ['HTTPS://A.example:443/b?c', 'A.example:443', '/b?c'],
    ['http://a?b', 'a', '/?b'],
    ['http://[::1]:80/', '[::1]:80', '/'],
    ['http://a//b', 'a', '//b'],
  ];
  for (const [target, authority, path] of cases) {
    test(`target: ${target} is ${path} of ${authority ?? 'the Host'}`, () => {
      assert.deepEqual(partsOfTarget(target), { authority, path });
      assert.equal(statusOf(['Host: b'], { target }), undefined);
    });
  }

  test('target: no host, user information or another scheme is 400', () => {
    const others = [
      '',
      'a',
      'a:80',
      'http:/a',
      'http:///a',
      'http://',
      'http://:80/',
      'http://../',
      'http://[:]/',
      'ftp://a/',
      'https:a',
    ];
    for (const target of [
      ...others,
      'http://u@a/',
      'http://u:p@a/',
      'http://a b/',
      'http://a#b',
      '**',
      '#',
    ]) {
      assert.equal(partsOfTarget(target), undefined, target);
      assert.equal(statusOf(['Host: b'], { target }), 400, target);
    }
  });
});

test('headerOf joins the values of a repeated header, whatever the case of its name', () => {
  const rawHeaders = ['A', '1', 'b', '2', 'a', '3', 'A', ''];
  assert.equal(headerOf({ rawHeaders }, 'a'), '1, 3, ');
  assert.equal(headerOf({ rawHeaders }, 'b'), '2');
  assert.equal(headerOf({ rawHeaders }, 'c'), undefined);
});
