import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Node } from '../../../src/core/types.ts';
import type { Store } from '../../../src/store/port/store.ts';
import type { Model, ModelStream } from './model.ts';

/** One run of random commands: the store along with its model. */
export interface ModelRun {
  readonly store: Store;
  readonly tenant: number;
  readonly model: Model;
  readonly owned: Map<string, OwnedStream>;
  node: Node;
  batch: number;
  tests: number;
  replays: number;
  /** The time of the store. */
  now: number;
}

export function streamOf(modelRun: ModelRun, id: string): ModelStream {
  const found = modelRun.model.streams.get(id);
  assert.ok(found);
  return found;
}

/** A command; `toString` is what a failing script shows. */
export interface Step {
  run(modelRun: ModelRun): Promise<void>;
  toString(): string;
}

export function step<Args>(
  name: string,
  anyArgs: fc.Arbitrary<Args>,
  run: (modelRun: ModelRun, args: Args) => Promise<void>,
): fc.Arbitrary<Step> {
  return anyArgs.map((args) => ({
    run: (modelRun) => run(modelRun, args),
    [fc.toStringMethod]: () => `${name} ${JSON.stringify(args)}`,
  }));
}

export const anyStream = fc.constantFrom('est_1', 'est_2');
export const anyPick = fc.nat({ max: 1000 });
export const chance = (oneIn: number) => fc.nat({ max: oneIn - 1 }).map((roll) => roll === 0);
