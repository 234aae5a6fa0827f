import type { NodesShown } from '../schemas/nodes.ts';
import { ServicePage } from './node-parts.tsx';
import { type Node, skewWords, warningsOf } from './node-words.ts';
import { SameElsewhere } from './parts/action.tsx';
import { Badge } from './parts/badge.tsx';
import { Freshness, Loaded } from './parts/loaded.tsx';
import { bytes, count, duration, percent, plural } from './parts/numbers.ts';
import { Page, Panel } from './parts/page.tsx';
import { type Column, Table } from './parts/table.tsx';
import { useRead } from './queries.ts';

/** The nodes of the service, and its store. */
export function Nodes() {
  return (
    <ServicePage title="Nodes">
      <Content />
    </ServicePage>
  );
}

function Content() {
  const read = useRead<NodesShown>('/nodes');
  return (
    <Page title="Nodes" actions={<Freshness read={read} />}>
      <Loaded read={read}>
        {({ nodes, store }) => (
          <>
            <Table caption="Nodes" columns={columns} rows={nodes} keyOf={({ id }) => id} />
            <p class="meta">
              {plural(nodes.length, 'node')}, {plural(sum(nodes), 'event stream')} with a node. A
              node knows its own version only.
            </p>
            <Panel title="Store">
              <Store {...store} />
            </Panel>
            <SameElsewhere request={{ method: 'GET', path: '/nodes' }} command="leat nodes" />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function sum(nodes: readonly Node[]): number {
  return nodes.reduce((total, { streams }) => total + streams, 0);
}

const columns: readonly Column<Node>[] = [
  {
    title: 'Node',
    narrow: 'first',
    cell: ({ id, is_self: isSelf }) => (
      <span class="stacked">
        <code class="wrap-anywhere">{id}</code>
        {isSelf && <span class="meta">sends this page</span>}
      </span>
    ),
  },
  { title: 'State', narrow: 'line', cell: (node) => <State node={node} /> },
  {
    title: 'Streams',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ streams }) => count(streams),
  },
  {
    title: 'Lease left',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ lease_ms: ms }) => (ms === 0 ? 'none' : duration(ms)),
  },
  {
    title: 'Clock skew',
    isNumber: true,
    narrow: 'labelled',
    cell: ({ clock_skew_ms: ms }) => skewWords(ms),
  },
  {
    title: 'Version',
    narrow: 'labelled',
    cell: ({ version }) => version ?? <span class="muted">–</span>,
  },
];

function State({ node }: { readonly node: Node }) {
  const warnings = warningsOf(node);
  if (warnings.length === 0) return <Badge state="ok" />;
  const isBad = warnings.some(({ tone }) => tone === 'bad');
  return (
    <span class="stacked">
      <Badge state={isBad ? 'failing' : 'lagging'} text={isBad ? 'wrong' : 'warning'} />
      {warnings.map(({ tone, text }) => (
        <span key={text} class={tone}>
          {text}
        </span>
      ))}
    </span>
  );
}

function Store({ engine, bytes: size, free_bytes: free }: NodesShown['store']) {
  return (
    <dl class="facts">
      <dt>Engine</dt>
      <dd>{engine === 'sqlite' ? 'SQLite, one node' : 'PostgreSQL, shared by all nodes'}</dd>
      <dt>Size</dt>
      <dd>{bytes(size)}</dd>
      {free !== undefined && (
        <>
          <dt>Free within</dt>
          <dd>
            {bytes(free)} ({percent(size === 0 ? 0 : free / size)}): used before the file grows
          </dd>
        </>
      )}
    </dl>
  );
}
