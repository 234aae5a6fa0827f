import type { RaisedAlert } from './system-alerts.ts';

/** Returns the alert of a node that is short of something that deliveries need. */
export function shortageAlert(
  { resource, code }: { readonly resource: string; readonly code: string },
  node: string,
): RaisedAlert {
  return {
    kind: 'node_shortage',
    key: `node_shortage ${node} ${resource}`,
    sentence: `a node is short of ${resource} (${code}): deliveries that need them wait, and none counts as a failure`,
    fields: { node, resource, code },
  };
}
