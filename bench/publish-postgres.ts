import type { Bench, Figure } from './bench.ts';
import { type Database, withPostgres } from './postgres.ts';
import { insertRate, publishHundredRounds, publishOneRounds } from './publish.ts';
import { nodesText, rateFigure } from './report.ts';

/** Publishing to a PostgreSQL store, singly and in arrays, through one node or several. */
export const publishPostgres: Bench = {
  name: 'publish-postgres',
  what: 'publishes to a PostgreSQL store; singly against a Fastify route that only parses, in arrays of 100 against a bare loop that inserts the same rows, 100 a commit',
  run: (progress, options) =>
    withPostgres(async (database) => {
      const { createTempStore } = database;
      const bare = (seconds: number): Promise<number> => bareInsertRate(database, seconds);
      const figures: Figure[] = [];
      for (const nodes of options.nodes) {
        const setup = { createTempStore, nodes };
        const at = nodesText(nodes);
        const limit = nodes === 1 ? { least: 0.4, goal: 0.8 } : undefined;
        const one = await publishOneRounds(setup, options, progress);
        figures.push(rateFigure(`publish one, ${at}`, one, limit));
        const hundred = await publishHundredRounds(setup, bare, options, progress);
        figures.push(rateFigure(`publish 100, ${at}`, hundred, limit));
      }
      return figures;
    }),
};

async function bareInsertRate(database: Database, seconds: number): Promise<number> {
  const tempStore = await database.createTempStore();
  const rate = await insertRate('./bare-insert-postgres.ts', tempStore.url, seconds);
  await tempStore.remove();
  return rate;
}
