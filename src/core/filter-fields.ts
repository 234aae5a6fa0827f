import { elementsRead, isArray, isObject, type Json } from './filter-values.ts';

/** The way to a field. */
export interface FieldPath {
  /** As the condition has it: the names joined by dots, or a JSON Pointer. */
  readonly text: string;
  readonly names: readonly string[];
}

/**
 * The fields of one event. The one that was read last is kept, as the filters of many streams begin with the
 * same one; equal names in conditions are one string of the engine, so that comparing them is cheap.
 */
export class Fields {
  readonly #envelope: Json;
  #lastPath: string | undefined;
  #lastValue: Json | undefined;

  constructor(envelope: Json) {
    this.#envelope = envelope;
  }

  /** Returns the value of a field; `undefined` when it is missing. */
  at({ text, names }: FieldPath): Json | undefined {
    if (text === this.#lastPath) return this.#lastValue;
    this.#lastPath = text;
    this.#lastValue = valueAt(this.#envelope, names);
    return this.#lastValue;
  }
}

const elementIndex = /^(?:0|[1-9][0-9]{0,5})$/;

/** Returns the value of a field; `undefined` when it is missing. Only own fields count. */
function valueAt(envelope: Json, names: readonly string[]): Json | undefined {
  let value: Json | undefined = envelope;
  for (const name of names) {
    if (isObject(value)) value = Object.hasOwn(value, name) ? value[name] : undefined;
    else if (isArray(value)) value = elementAt(value, name);
    else return undefined;
  }
  return value;
}

function elementAt(value: readonly Json[], name: string): Json | undefined {
  return elementIndex.test(name) && Number(name) < elementsRead ? value[Number(name)] : undefined;
}
