import type { Bench, Figure } from './bench.ts';
import { startReceiver } from './child.ts';
import { latencyFigures } from './latency.ts';
import { withPostgres } from './postgres.ts';
import { nodesText } from './report.ts';

/**
 * The latency on PostgreSQL; with several nodes most events are published to one that is not the
 * owner of the stream. */
export const latencyPostgres: Bench = {
  name: 'latency-postgres',
  what: 'the latency with a PostgreSQL store, published to the nodes in turn; against a bare POST to that receiver',
  run: (progress, options) =>
    withPostgres(async ({ createTempStore }) => {
      const receiver = await startReceiver('--seq');
      try {
        const figures: Figure[] = [];
        for (const nodes of options.nodes) {
          const name = `latency ${nodesText(nodes)}`;
          const setup = { createTempStore, nodes };
          const measured = await latencyFigures(name, setup, receiver, options, progress);
          figures.push(...measured.map((figure) => barOfOne(figure, nodes)));
        }
        return figures;
      } finally {
        await receiver.end();
      }
    }),
};

/** Several nodes are shown, but the limit is for one. */
function barOfOne(figure: Figure, nodes: number): Figure {
  return nodes === 1 ? figure : { ...figure, must: undefined, goal: undefined };
}
