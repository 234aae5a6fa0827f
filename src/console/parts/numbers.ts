const thinSpace = '\u2009';

/** Returns a count with thin spaces between thousands. */
export function count(value: number): string {
  return String(Math.round(value)).replaceAll(/\B(?=(?:\d{3})+$)/g, thinSpace);
}

/** Returns a count for a figure: in millions or thousands of millions where it is long. */
export function brief(value: number): string {
  if (value < 10_000_000) return count(value);
  const [divisor, unit] = value < 1_000_000_000 ? [1_000_000, 'M'] : [1_000_000_000, 'G'];
  return `${(value / divisor).toPrecision(4)}${thinSpace}${unit}`;
}

/** Returns `1 event`, `2 events`. */
export function plural(value: number, noun: string, many = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

/** Returns a share from 0 to 1 as a percentage that is never rounded up to 100 or down to 0. */
export function percent(share: number): string {
  if (share > 0.9995 && share < 1) return '> 99.9 %';
  if (share > 0 && share < 0.0005) return '< 0.1 %';
  const digits = share === 0 || share === 1 ? 0 : 1;
  return `${(share * 100).toFixed(digits)}${thinSpace}%`;
}

/** Returns milliseconds in the unit that fits. */
export function duration(ms: number): string {
  if (ms === 0) return '0';
  if (ms < 1) return `< 1${thinSpace}ms`;
  if (ms < 1000) return `${Math.round(ms)}${thinSpace}ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)}${thinSpace}s`;
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)}${thinSpace}min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)}${thinSpace}h`;
  return `${Math.round(ms / 86_400_000)}${thinSpace}days`;
}

/** Returns a number of bytes in the unit that fits. */
export function bytes(value: number): string {
  if (value < 1024) return `${value}${thinSpace}B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)}${thinSpace}KiB`;
  if (value < 1024 ** 3) return `${(value / 1024 ** 2).toFixed(1)}${thinSpace}MiB`;
  return `${(value / 1024 ** 3).toFixed(1)}${thinSpace}GiB`;
}
