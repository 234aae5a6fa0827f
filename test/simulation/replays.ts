import type { Replay, Node } from '../../src/core/types.ts';
import type {
  MaterializeResult,
  MaterializeRequest,
  NewReplay,
} from '../../src/store/port/replays.ts';
import * as replays from '../store/contract/model-replays.ts';
import { type Account, processOf } from './account.ts';
import type { Tables } from './tables.ts';

/** Ranges of the log that are sent again. */
export class Replays {
  readonly #account: Account;
  readonly #tables: Tables;

  constructor(account: Account, tables: Tables) {
    this.#account = account;
    this.#tables = tables;
  }

  replayed(
    asked: NewReplay,
    answer: { readonly created: Replay } | { readonly refused: string },
    now: number,
  ): void {
    const line = this.#account.lines.get(asked.stream);
    if (line === undefined || line.isDeleted) return;
    const expected = replays.createReplay(line.log.model, line.counts, asked, now);
    const isRefused = 'refused' in expected;
    if (isRefused !== 'refused' in answer)
      this.#account.break('counters', `${asked.id} of ${line.label}`);
  }

  cancelled(stream: string, id: string, now: number): void {
    const line = this.#account.lines.get(stream);
    if (line === undefined || line.isDeleted) return;
    replays.cancelReplay(line.counts, id, now);
    this.#tables.check(line);
  }

  /** Answers the ids of the events that are sent again. */
  materialized(
    node: Node,
    ask: MaterializeRequest,
    answer: MaterializeResult,
    now: number,
  ): readonly string[] {
    const line = this.#account.lines.get(ask.stream);
    if (line === undefined || line.isDeleted) return [];
    const { counts } = line;
    if (ask.epoch !== counts.epoch || line.owner === undefined) {
      if (answer.result !== 'lost')
        this.#account.break('owner', `a former owner feeds ${line.label}`);
      return [];
    }
    const by = { process: processOf(node), epoch: ask.epoch };
    if (replays.runningOf(counts)?.id !== ask.replay) {
      if (answer.materialized > 0)
        this.#account.break('counters', `${ask.replay} of ${line.label} is over`);
      this.#tables.check(line, by);
      return [];
    }
    const cursor = this.#tables.cursorNow(line);
    const wanted = line.spans.at(-1)?.types ?? [];
    const firstAt = (offset: number): number | undefined => this.#tables.firstAt(line, offset);
    const { take, waitingMax } = ask;
    const asked = { cursor, take, waitingMax, wanted, firstAt };
    const { ids, result } = replays.materialize(line.log.model, counts, asked, now);
    for (const id of ids) line.cycles.set(id, (line.cycles.get(id) ?? 0) + 1);
    if (answer.materialized !== ids.length || answer.result !== result) {
      this.#account.break(
        'counters',
        `${ask.replay} was fed ${answer.materialized} events, not ${ids.length}`,
      );
    }
    this.#tables.check(line, by);
    return ids;
  }

  /** Replays that were over longer ago are forgotten; no other is. */
  prunedReplays(olderThanMs: number): void {
    const before = this.#account.deps.now() - olderThanMs;
    for (const { id, counts } of this.#account.living()) {
      for (const { id: replay, finishedAt } of counts.replays.values()) {
        const isThere = this.#account.deps.sharedStore.db.get`
          select 1 from replays where stream = ${id} and id = ${replay}`;
        if (isThere !== undefined || (finishedAt ?? Infinity) >= before) continue;
        counts.replays.delete(replay);
      }
    }
    for (const line of this.#account.living()) this.#tables.checkReplays(line);
  }
}
