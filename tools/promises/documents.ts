import { readFileSync } from 'node:fs';

/**
 * Returns entries for what documents promise and tests compare with the program: guarantees, metrics with
 * their labels, alert rules and error codes.
 */
export function documentEntries(): string[] {
  return [...guaranteeEntries(), ...metricEntries(), ...errorEntries()];
}

const read = (name: string): string => readFileSync(`docs/${name}`, 'utf8');

/** Each sentence of a guarantee is an entry, and each test that the guarantee names. */
function guaranteeEntries(): string[] {
  const items = read('guarantees.md')
    .split(/\n(?=- )|\n\n/)
    .filter((part) => part.startsWith('- '))
    .map((part) => part.slice(2).replaceAll(/\s+/g, ' '));
  return items.flatMap((item) => {
    const tests = item.matchAll(/`(?:test\/|npm run )[^`]+`(?: \(long\))?/g);
    return [
      ...item
        .split(/(?<=\.) (?=[A-Z])/)
        .map((sentence) => `guarantee: ${sentence.replace(/(?<=\.) [`[].*$/, '')}`),
      ...Array.from(tests, ([name]) => `shown by: ${name}, ${item.slice(0, 48).trimEnd()}…`),
    ];
  });
}

function metricEntries(): string[] {
  const rows = read('metrics.md').matchAll(
    /^\| `(?<name>leat_\w+)` *\| (?<type>\w+) *\| (?<labels>[^|]+?) *\| \S+ *\|/gm,
  );
  const alerts = read('alerts.yml').matchAll(/^ +- alert: (?<name>\w+)$/gm);
  return [
    ...Array.from(rows, ({ groups = {} }) => {
      const labels = groups['labels']?.replaceAll(/[`–]/g, '');
      return `metric: ${groups['name']} ${groups['type']} {${labels}}`;
    }),
    ...Array.from(alerts, ({ groups }) => `alert rule: ${groups?.['name']}`),
  ];
}

/** An error without a code has its message. */
function errorEntries(): string[] {
  const rows = read('http-api.md').matchAll(
    /^\| (?<status>[45]\d\d) +\| (?<code>\S+) +\| (?<message>[^|]+?) *\|/gm,
  );
  const errors = Array.from(rows, ({ groups = {} }) => {
    const name = groups['code'] === '–' ? groups['message'] : groups['code'];
    return `error: ${groups['status']} ${name}`;
  });
  return [...new Set(errors)];
}
