// Before uPlot, which formats numbers by the language of the browser as soon as it is read.
// oxlint-disable-next-line import/no-unassigned-import -- it acts when it is read
import './language.ts';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { type Series, whenOf } from './chart.tsx';

interface Plot {
  readonly times: readonly string[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  readonly height: number;
  /** Receives the values at the point below the pointer, in words; empty without one. */
  readonly onPoint: (text: string) => void;
}

/** Draws lines into an element and follows its width; returns a function that removes them. */
export function plot(
  element: HTMLElement,
  { times, series, format, height, onPoint }: Plot,
): () => void {
  const style = getComputedStyle(element);
  const colour = (name: string): string => resolved(element, style.getPropertyValue(`--${name}`));
  const grid = { stroke: colour('line'), width: 1 };
  const axis = { stroke: colour('muted'), font: '12px system-ui, sans-serif', grid, ticks: grid };
  const chart = new uPlot(
    {
      width: element.clientWidth,
      height,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      // Below five steps an axis would repeat whole numbers.
      scales: { y: { range: (_chart, _low, high) => [0, Math.max(5, high * 1.1)] } },
      axes: [
        { ...axis, space: 72, size: 28, values: (_chart, splits) => labelsOf(splits) },
        { ...axis, size: 64, values: (_chart, splits) => splits.map((value) => format(value)) },
      ],
      series: [
        {},
        ...series.map(({ tone, isDashed }) => ({
          stroke: colour(tone),
          width: 2,
          points: { show: false },
          ...(isDashed === true ? { dash: [5, 3] } : {}),
        })),
      ],
      hooks: {
        setCursor: [({ cursor: { idx } }) => onPoint(readoutOf(idx))],
      },
    },
    [times.map((time) => Date.parse(time) / 1000), ...series.map(({ values }) => [...values])],
    element,
  );
  const readoutOf = (index: number | null | undefined): string => {
    const time = times[index ?? -1];
    if (index === null || index === undefined || time === undefined) return '';
    const values = series.map(({ name, values: { [index]: value } }) =>
      value === null || value === undefined ? `${name} –` : `${name} ${format(value)}`,
    );
    return [whenOf(time), ...values].join(' · ');
  };
  const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
  observer.observe(element);
  return () => {
    observer.disconnect();
    chart.destroy();
  };
}

/** Returns the labels of an axis of times: hours within a day, dates at its beginning. */
function labelsOf(splits: readonly number[]): string[] {
  return splits.map((seconds) => {
    const date = new Date(seconds * 1000);
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
    return (isMidnight ? days : hours).format(date);
  });
}

const hours = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

/** Returns a colour as a canvas takes it: `light-dark()` is resolved for the element. */
function resolved(element: HTMLElement, value: string): string {
  const former = element.style.color;
  element.style.color = value;
  const { color } = getComputedStyle(element);
  element.style.color = former;
  return color;
}
