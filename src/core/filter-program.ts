import type { Comparison } from './filter-comparisons.ts';
import { type FieldPath, Fields } from './filter-fields.ts';
import { charactersRead, type Json, type Work } from './filter-values.ts';

/** A condition that was parsed. */
export type FilterNode =
  | { readonly all: readonly FilterNode[] }
  | { readonly any: readonly FilterNode[] }
  | { readonly not: FilterNode }
  | Test;

/** One comparison. */
interface Test {
  readonly path: FieldPath;
  readonly test: Comparison;
  /** The value that the field, or an element of it, has to equal; absent if others will do, too. */
  readonly only?: string | number | boolean | undefined;
}

/** A comparison, and where to continue after it. */
interface Step extends Test {
  readonly ifTrue: Position;
  readonly ifFalse: Position;
}

/** The index of a step, or the result. */
export type Position = number;

/** The results of an evaluation. */
export const matching: Position = -1;
const notMatching: Position = -2;

/** Units of work of one slice: some milliseconds. */
const workOfSlice = 200_000;

const workOfStep = 4;
/** The work of a name or an index on the way to a value. */
const workOfName = 3;

/**
 * A condition as a list of comparisons with jumps, so that an evaluation can pause after each of them
 * and its state is one number. The values of 64 comparisons and an event of 256 KiB can be made such
 * that they take some 50 ms together; one comparison takes some milliseconds at most.
 */
export class Filter {
  readonly #steps: readonly Step[];
  readonly #start: Position;
  /** A field of which every matching event has one value, and that value: `undefined` if unknown. */
  readonly #requiredPath: FieldPath | undefined;
  readonly #required: Test['only'];
  readonly #requiredWork: number = 0;

  constructor(node: FilterNode) {
    const steps: Step[] = [];
    this.#start = addSteps(steps, node, matching, notMatching);
    this.#steps = steps;
    const first = steps[this.#start];
    if (first?.only === undefined || first.ifFalse !== notMatching) return;
    this.#requiredPath = first.path;
    this.#required = first.only;
    this.#requiredWork = workOf(first);
  }

  /** Where {@link evaluate} begins. */
  get start(): Position {
    return this.#start;
  }

  /**
   * Evaluates the condition from a position on, until `work` is used up. Returns {@link matching},
   * `notMatching`, or the position to continue from.
   */
  evaluate(fields: Fields, from: Position, work: Work): Position {
    if (from === this.#start && this.#isOther(fields)) {
      work.left -= this.#requiredWork;
      return notMatching;
    }
    let at = from;
    while (at >= 0 && work.left > 0) {
      const step = this.#steps[at];
      if (step === undefined) throw new RangeError(`No step ${at} of a filter.`);
      work.left -= workOf(step);
      at = step.test(fields.at(step.path), work) ? step.ifTrue : step.ifFalse;
    }
    return at;
  }

  /**
   * Returns whether a required value is another one, or missing. Most events do not match most filters:
   * this takes half as long as the first step, which gives the same result.
   */
  #isOther(fields: Fields): boolean {
    if (this.#requiredPath === undefined) return false;
    const value = fields.at(this.#requiredPath);
    const isRead = typeof value !== 'string' || value.length <= charactersRead;
    return typeof value !== 'object' && isRead && value !== this.#required;
  }

  /** Returns whether an envelope matches, with pauses where that takes long. */
  *matches(envelope: Json): Generator<void, boolean, void> {
    const fields = new Fields(envelope);
    let at = this.#start;
    for (;;) {
      at = this.evaluate(fields, at, { left: workOfSlice });
      if (at < 0) return at === matching;
      yield;
    }
  }
}

/** Returns the work of a step besides that of its comparison. */
function workOf({ path }: Step): number {
  return workOfStep + workOfName * path.names.length;
}

/** Adds the steps of a node, last ones first; returns where it begins. */
function addSteps(steps: Step[], node: FilterNode, ifTrue: Position, ifFalse: Position): Position {
  if ('not' in node) return addSteps(steps, node.not, ifFalse, ifTrue);
  if ('all' in node) {
    return node.all.reduceRight((next, part) => addSteps(steps, part, next, ifFalse), ifTrue);
  }
  if ('any' in node) {
    return node.any.reduceRight((next, part) => addSteps(steps, part, ifTrue, next), ifFalse);
  }
  steps.push({ ...node, ifTrue, ifFalse });
  return steps.length - 1;
}
