import type { Command } from 'commander';
import type { EventTypesShown } from '../schemas/event-types.ts';
import {
  type CliDeps,
  type CommonOptions,
  examples,
  runWithApi,
  withCommonOptions,
} from './command.ts';
import { allPages } from './http/pages.ts';
import { writeJson } from './json.ts';
import { shortTime, tableLines } from './terminal/table.ts';

type TypeShown = EventTypesShown['types'][number];

interface TypesOptions extends CommonOptions {
  readonly seen?: boolean;
}

/** `leat events types` */
export function addEventTypesCommand(events: Command, deps: CliDeps): void {
  withCommonOptions(events.command('types'))
    .description('list event types: the predefined ones, and those of the events in the log')
    .option('--seen', 'only those with events in the log')
    .addHelpText('after', examples('leat events types', 'leat events types --seen --json'))
    .action((options: TypesOptions) =>
      runWithApi(deps, options, async ({ api, json, terminal }) => {
        const all = await allPages<TypeShown>(api, '/event-types', 'types');
        const types = all.filter((row) => options.seen !== true || row.last_seen_at !== null);
        if (json) return terminal.print(writeJson(types));
        const { width, paint } = terminal;
        if (types.length === 0) terminal.print('No events in the log.');
        else for (const line of tableLines(columns, types, { width, paint })) terminal.print(line);
      }),
    );
}

const columns: Parameters<typeof tableLines<TypeShown>>[0] = [
  { header: 'TYPE', text: ({ type }) => type, cuttable: true },
  { header: 'PREDEFINED', text: (row) => (row.catalogue ? 'yes' : 'no') },
  {
    header: 'LAST EVENT',
    text: ({ last_seen_at: at }) => (at === null ? 'never' : shortTime(at)),
  },
];
