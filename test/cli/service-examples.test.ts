import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Command } from 'commander';
import { addServiceExamples } from '../../src/cli/service-examples.ts';

test('the help of every service command has an example', () => {
  const program = new Command('leat');
  const tenants = program.command('tenants');
  const [start, create] = [program.command('start'), tenants.command('create <name>')];
  const outputOf = (command: Command): string => {
    let text = '';
    command.configureOutput({ writeOut: (chunk) => (text += chunk) }).outputHelp();
    return text;
  };
  addServiceExamples(program);
  assert.match(outputOf(start), /\nExamples:\n {2}leat start\n/);
  assert.match(outputOf(create), /\nExamples:\n {2}leat tenants create acme acme\.example\.com\n/);
});
