import { formatTime } from '../core/date.ts';
import { nodes, type NodesShown } from '../schemas/nodes.ts';
import type { NodeState } from '../store/port/ownership.ts';
import type { Store } from '../store/port/store.ts';
import type { NodeFacts } from './node-facts.ts';
import { type Operation, operation } from './operation.ts';
import { type OperatorsDeps, operatorsText, requireOperator } from './operators.ts';

export interface NodesDeps extends OperatorsDeps {
  readonly store: Pick<Store, 'ownership' | 'overview' | 'time'>;
  /** The name of this node; absent where no other node can have the store. */
  readonly nodeId: string | undefined;
  readonly node: Pick<NodeFacts, 'engine'>;
  /** Version of the program. */
  readonly version: string;
}

/** Creates the operation that lists the nodes (docs/http-api.md#nodes). */
export function nodeOperations(deps: NodesDeps): Operation[] {
  return [
    operation({
      operationId: 'listNodes',
      method: 'GET',
      path: '/nodes',
      summary: 'List the nodes of the service, with the size of its store',
      description: operatorsText,
      tag: 'Service',
      scopes: ['read:event_streams'],
      lifecycle: 'Early Access',
      extension: true,
      success: 200,
      response: nodes,
      admit: (call) => requireOperator(deps, call),
      handle: async () => ({ body: await nodesOf(deps) }),
    }),
  ];
}

async function nodesOf({ store, nodeId, node, version }: NodesDeps): Promise<NodesShown> {
  const [list, { bytes, freeBytes }] = await Promise.all([
    store.ownership.nodes(),
    store.overview.size(),
  ]);
  return {
    as_of: formatTime(store.time.now()),
    nodes: list.map((state) => {
      const isSelf = nodeId === undefined || state.id === nodeId;
      return showNode(state, isSelf, version);
    }),
    store: {
      engine: node.engine,
      bytes,
      ...(freeBytes === undefined ? {} : { free_bytes: freeBytes }),
    },
  };
}

/** The store has no versions of the other nodes. */
function showNode(
  { id, streams, leaseMs, skewMs }: NodeState,
  isSelf: boolean,
  version: string,
): NodesShown['nodes'][number] {
  return {
    id,
    ...(isSelf ? { version } : {}),
    streams,
    lease_ms: leaseMs,
    clock_skew_ms: skewMs,
    is_self: isSelf,
  };
}
