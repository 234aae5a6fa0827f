import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Creates metrics of one registry, with their prefix. */
export interface MetricFactory {
  counter<L extends string = never>(
    name: string,
    help: string,
    labelNames?: readonly L[],
  ): Counter<L>;
  gauge<L extends string = never>(name: string, help: string, labelNames?: readonly L[]): Gauge<L>;
  histogram<L extends string = never>(
    name: string,
    help: string,
    buckets: readonly number[],
    labelNames?: readonly L[],
  ): Histogram<L>;
}

export function createMetricFactory(registry: Registry, prefix: string): MetricFactory {
  const registers = [registry];
  const named = (name: string): string => `${prefix}_${name}`;
  return {
    counter: (name, help, labelNames = []) =>
      new Counter({ name: named(name), help, labelNames, registers }),
    gauge: (name, help, labelNames = []) =>
      new Gauge({ name: named(name), help, labelNames, registers }),
    histogram: (name, help, buckets, labelNames = []) =>
      new Histogram({ name: named(name), help, labelNames, registers, buckets: [...buckets] }),
  };
}
