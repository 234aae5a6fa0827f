import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Node } from '../../../src/core/types.ts';
import type { Store } from '../../../src/store/port/store.ts';
import type { Model, ModelStream } from './model.ts';

/** The store and the model side by side. */
export interface World {
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

export function streamOf(world: World, id: string): ModelStream {
  const found = world.model.streams.get(id);
  assert.ok(found);
  return found;
}

/** A command; `toString` is what a failing script shows. */
export interface Step {
  run(world: World): Promise<void>;
  toString(): string;
}

export function step<Args>(
  name: string,
  args: fc.Arbitrary<Args>,
  run: (world: World, args: Args) => Promise<void>,
): fc.Arbitrary<Step> {
  return args.map((given) => ({
    run: (world) => run(world, given),
    [fc.toStringMethod]: () => `${name} ${JSON.stringify(given)}`,
  }));
}

export const anyStream = fc.constantFrom('est_1', 'est_2');
export const anyPick = fc.nat({ max: 1000 });
export const chance = (oneIn: number) => fc.nat({ max: oneIn - 1 }).map((roll) => roll === 0);
