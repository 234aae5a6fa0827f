import assert from 'node:assert/strict';
import type { Crawl, Exception } from '../helpers/console-crawl.ts';

/** What changes neither address, request, dialog nor focus. */
export const exceptions: readonly Exception[] = [
  { element: /Cop(y|ied)\b/, changes: 'clipboard', reason: 'it copies a text' },
  { element: /button (System|Light|Dark)$/, changes: 'theme', reason: 'it changes the colours' },
  {
    element: /button (Table|Chart|Rows|JSON)$/,
    changes: 'text',
    reason: 'it shows the same otherwise',
  },
  { element: /button Payload( \(set\))?$/, changes: 'text', reason: 'it shows the filter' },
  {
    element: /live=.*: button (Pause|Continue)$/,
    changes: 'text',
    reason: 'it stops the list of live events',
  },
  {
    element: /(checkbox|radio) [^:]*$/,
    changes: 'checked',
    reason: 'a button sends what is chosen',
  },
  { element: /Clear selection$/, changes: 'text', reason: 'a button sends what is chosen' },
  {
    element: /(Add a|Remove) (condition|header)/,
    changes: 'text',
    reason: 'a button sends the form',
  },
];

export function assertAlive({ dead }: Crawl): void {
  assert.deepEqual(dead, [], 'elements that do nothing');
}
