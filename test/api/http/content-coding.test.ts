import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { preferredCoding } from '../../../src/api/http/content-coding.ts';

describe('preferredCoding', () => {
  const cases: Readonly<Record<string, readonly (string | undefined)[]>> = {
    br: [
      'br',
      'gzip, br',
      'gzip, deflate, br, zstd',
      'br;q=0.5, gzip;q=0.5',
      'gzip;q=0.9, br',
      'BR ; Q=0.3',
      'br;q=0.001',
      '*',
      'gzip;q=0, *;q=0.5',
      'identity, br',
      'gzip;q=x, br;q=0.1',
    ],
    gzip: [
      'gzip',
      'x-gzip',
      'br;q=0.1, gzip;q=1',
      'br;q=0.1,gzip',
      'br;q=0, gzip',
      'br;q=0.000, gzip;q=0.001',
      'br;q=0, *',
      '*;q=0.5, gzip;q=0.6',
      'br;q=2, gzip;q=0.1',
    ],
    none: [
      undefined,
      '',
      'identity',
      'deflate, zstd',
      'identity;q=1, br;q=0.5, gzip;q=0.9',
      '*;q=0',
      'identity;q=0',
      'br;q=0, gzip;q=0',
      'brr, xgzip',
      ';q=1, ,',
      'br;q=-1',
    ],
  };
  for (const [expected, headers] of Object.entries(cases)) {
    for (const header of headers) {
      test(`${header === undefined ? 'no Accept-Encoding' : `"${header}"`}: ${expected}`, () => {
        assert.equal(preferredCoding(header) ?? 'none', expected);
      });
    }
  }
});
