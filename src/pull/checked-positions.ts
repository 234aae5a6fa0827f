import { checkOf, isSafe, type Position } from '../core/offset.ts';
import type { LogEvent, Offset } from '../core/types.ts';
import type { LogStore } from '../store/port/log.ts';
import { positionAt } from './start-position.ts';

export interface CheckedPositionsDeps {
  readonly tenant: number;
  readonly log: Pick<LogStore, 'page'>;
}

/** Finds positions of one log with the checks of their events, from memory where possible. */
export class CheckedPositions {
  readonly #deps: CheckedPositionsDeps;
  #newest: Position | undefined;

  constructor(deps: CheckedPositionsDeps) {
    this.#deps = deps;
  }

  /** Remembers the newest event of the log. */
  appended({ offset, id }: Pick<LogEvent, 'offset' | 'id'>): void {
    this.#newest = { offset, check: checkOf(id) };
  }

  /** Returns the position after the event at an offset; `undefined` when it is not in memory. */
  find(
    offset: Offset,
    known: Position,
    tail: { next(offset: Offset): LogEvent | undefined } | undefined,
  ): Position | undefined {
    if (offset === known.offset && isSafe(known)) return known;
    if (this.#newest?.offset === offset) return this.#newest;
    const event = tail?.next(offset - 1);
    return event?.offset === offset ? { offset, check: checkOf(event.id) } : undefined;
  }

  /** Reads the position after the event at an offset; remembers it when that is the head. */
  async read(offset: Offset, isHead: () => boolean): Promise<Position> {
    const position = await positionAt(this.#deps.log, this.#deps.tenant, offset);
    if (isSafe(position) && isHead()) this.#newest = position;
    return position;
  }

  clear(): void {
    this.#newest = undefined;
  }
}
