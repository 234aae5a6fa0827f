import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runLeat } from '../helpers/leat.ts';

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');

/** Returns the words of each command of `leat` in the README: in blocks and in code spans. */
function commandsIn(text: string): string[][] {
  const blocks = [...text.matchAll(/^```sh\n(.*?)^```/gms)].map(({ 1: block = '' }) => block);
  const spans = [...text.matchAll(/`(leat [a-z][^`]*)`/g)].map(({ 1: span = '' }) => span);
  return [...blocks.flatMap((block) => block.split('\n')), ...spans]
    .map((line) => /(?:^|\s)leat (?<words>[a-z].*)$/.exec(line)?.groups?.['words'] ?? '')
    .filter((words) => words !== '')
    .map((words) =>
      words
        .replaceAll(/'[^']*'|#.*|&/g, '')
        .trim()
        .split(/\s+/),
    );
}

test('README: every command exists, with its options', { tags: ['long'] }, async () => {
  const commands = commandsIn(readme);
  assert.ok(commands.length >= 15, `${commands.length} commands`);
  for (const words of commands) {
    const options = words.filter((word) => word.startsWith('--'));
    const names = words.slice(0, words.findIndex((word) => !/^[a-z][a-z-]+$/.test(word)) >>> 0);
    const { code, output } = await runLeat([...names.slice(0, 2), '--help'], {});
    assert.equal(code, 0, `${words.join(' ')}: ${output}`);
    const shown = output.split('\n')[0] ?? '';
    assert.ok(shown.startsWith(`Usage: leat ${names[0]}`), `${words.join(' ')}: ${shown}`);
    for (const option of options) {
      assert.match(output, new RegExp(`${option}\\b`), `${words.join(' ')}: ${option}`);
    }
  }
});

test('README: has fewer than 200 lines', () => {
  assert.ok(readme.split('\n').length <= 200);
});
