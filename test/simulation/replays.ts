import type { Replay, Node } from '../../src/core/types.ts';
import type {
  MaterializeResult,
  MaterializeRequest,
  NewReplay,
} from '../../src/store/port/replays.ts';
import * as replays from '../store/contract/model-replays.ts';
import { type OracleCore, processOf } from './oracle-core.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Tables } from './tables.ts';

/** Replays: ranges of the log that are sent again. */
export class Replays {
  readonly #core: OracleCore;
  readonly #tables: Tables;

  constructor(core: OracleCore, tables: Tables) {
    this.#core = core;
    this.#tables = tables;
  }

  replayed(
    request: NewReplay,
    returned: { readonly created: Replay } | { readonly refused: string },
    now: number,
  ): void {
    const stream = this.#core.streams.get(request.stream);
    if (stream === undefined || stream.isDeleted) return;
    const expected = replays.createReplay(stream.log.model, stream.counts, request, now);
    const isRefused = 'refused' in expected;
    if (isRefused !== 'refused' in returned)
      this.#core.violate('counters', `${request.id} of ${stream.label}`);
  }

  cancelled(streamId: string, id: string, now: number): void {
    const stream = this.#core.streams.get(streamId);
    if (stream === undefined || stream.isDeleted) return;
    replays.cancelReplay(stream.counts, id, now);
    this.#tables.check(stream);
  }

  /** Returns the ids of the events that are sent again. */
  materialized(
    node: Node,
    request: MaterializeRequest,
    returned: MaterializeResult,
    now: number,
  ): readonly string[] {
    const stream = this.#core.streams.get(request.stream);
    if (stream === undefined || stream.isDeleted) return [];
    const { counts } = stream;
    if (request.epoch !== counts.epoch || stream.owner === undefined) {
      if (returned.result !== 'lost')
        this.#core.violate('owner', `a former owner materializes events of ${stream.label}`);
      return [];
    }
    const by = { process: processOf(node), epoch: request.epoch };
    if (replays.runningOf(counts)?.id !== request.replay) {
      if (returned.materialized > 0)
        this.#core.violate('counters', `${request.replay} of ${stream.label} is over`);
      this.#tables.check(stream, by);
      return [];
    }
    const cursor = this.#tables.cursorNow(stream);
    if (returned.unfiltered !== undefined) {
      counts.cursor = Math.max(counts.cursor, cursor);
      this.#tables.check(stream, by);
      return [];
    }
    const wanted = stream.spans.at(-1)?.types ?? [];
    const firstAt = (offset: number): number | undefined => this.#tables.firstAt(stream, offset);
    const { take, waitingMax } = request;
    const filteredTo = filteredToOf(stream, request, replays.runningOf(counts)?.types);
    const batch = { cursor, take, waitingMax, wanted, filteredTo, firstAt };
    const { ids, result } = replays.materialize(stream.log.model, counts, batch, now);
    for (const id of ids) stream.cycles.set(id, (stream.cycles.get(id) ?? 0) + 1);
    if (returned.materialized !== ids.length || returned.result !== result) {
      this.#core.violate(
        'counters',
        `${request.replay} has materialized ${returned.materialized} events, not ${ids.length}`,
      );
    }
    this.#tables.check(stream, by);
    return ids;
  }

  /** Checks that only replays that finished before the retention were removed. */
  prunedReplays(olderThanMs: number): void {
    const before = this.#core.deps.now() - olderThanMs;
    for (const { id, counts } of this.#core.existing()) {
      for (const { id: replay, finishedAt } of counts.replays.values()) {
        const isThere = this.#core.deps.sharedStore.db.get`
          select 1 from replays where stream = ${id} and id = ${replay}`;
        if (isThere !== undefined || (finishedAt ?? Infinity) >= before) continue;
        counts.replays.delete(replay);
      }
    }
    for (const stream of this.#core.existing()) this.#tables.checkReplays(stream);
  }
}

/** Returns the end of the stretch that was filtered for a request, if its filter and types are those of now. */
function filteredToOf(
  { selection: { types, filter } }: SimulatedStream,
  { filtered }: MaterializeRequest,
  replayed: readonly string[] | undefined,
): number | undefined {
  if (filter === undefined || types.length === 0) return undefined;
  if (filtered?.filter !== filter) return undefined;
  const wanted = types.filter((type) => replayed?.includes(type) !== false);
  return wanted.every((type) => filtered.types.includes(type)) ? filtered.upTo : undefined;
}
