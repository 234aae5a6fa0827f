import type { Command } from 'commander';
import { examples } from './command.ts';

/** Examples in the help of the service commands, by command. */
const examplesOf: Readonly<Record<string, readonly string[]>> = {
  start: ['leat start', 'LEAT_PORT=9000 LEAT_TLS=local leat start'],
  serve: ['LEAT_STORE=sqlite:/var/lib/leat/leat.db leat serve'],
  messages: ['TOKEN_ISSUER_DOMAIN=leat.example.com leat messages'],
  config: ['leat config', 'leat config | grep LEAT_RETRY'],
  openapi: ['leat openapi > openapi.json'],
  nodes: ['leat nodes'],
  'tenants list': ['leat tenants list'],
  'tenants create': ['leat tenants create acme acme.example.com'],
  'tenants bootstrap': ['leat tenants bootstrap acme'],
  'keys list': ['leat keys list --tenant acme'],
  'keys rotate': [
    'leat keys rotate',
    'leat keys rotate --tenant acme --now',
    'leat keys rotate --webhooks',
  ],
  'keys revoke': ['leat keys revoke <kid>'],
  console: ['leat console', 'leat console --role viewer --tenant acme'],
  'console sessions': ['leat console sessions --tenant acme'],
  'console end': ['leat console end ses_…', 'leat console end --all'],
  'migrate-store': [
    'leat migrate-store --from sqlite:leat.db --to postgres://leat@db.example.com/leat',
  ],
};

/** Adds the examples to the help of the service commands. */
export function addServiceExamples(command: Command, path: readonly string[] = []): void {
  const own = examplesOf[path.join(' ')];
  if (own !== undefined) command.addHelpText('after', examples(...own));
  for (const each of command.commands) addServiceExamples(each, [...path, each.name()]);
}
