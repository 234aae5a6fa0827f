import { Drawing } from './icon.tsx';

/** The states that a badge shows: of a stream, and of a delivery. */
const badges = {
  ok: ['ok', 'disc'],
  failing: ['bad', 'triangle'],
  lagging: ['warn', 'hourglass'],
  paused: ['info', 'bars'],
  disabled: ['none', 'stop'],
  delivered: ['ok', 'tick'],
  failed: ['bad', 'cross'],
  retrying: ['warn', 'turn'],
  in_progress: ['info', 'dots'],
  waiting: ['info', 'dots'],
  filtered: ['none', 'funnel'],
  skipped: ['none', 'skip'],
  blocked: ['warn', 'stop'],
  dismissed: ['none', 'dash'],
  running: ['info', 'turn'],
  done: ['ok', 'tick'],
  cancelled: ['none', 'cross'],
} as const satisfies Record<string, readonly [Tone, keyof typeof shapes]>;

type Tone = 'ok' | 'warn' | 'bad' | 'info' | 'none';
export type BadgeState = keyof typeof badges;

const shapes = {
  disc: <circle cx="6" cy="6" r="4" fill="currentColor" stroke="none" />,
  triangle: <path d="M6 1.5 11 10.500H1z" fill="currentColor" stroke="none" />,
  hourglass: <path d="M2.5 1.500h7L6 6l3.5 4.500h-7L6 6z" />,
  bars: <path d="M4 2v8M8 2v8" />,
  stop: <rect x="2" y="2" width="8" height="8" rx="1" />,
  tick: <path d="M2 6.5 5 9.5 10 3" />,
  cross: <path d="M2.5 2.500l7 7M9.5 2.500l-7 7" />,
  turn: <path d="M10 6a4 4 0 1 1-1.5-3.100M10 1v2.500H7.5" />,
  dots: <path d="M2 6h.1M6 6h.1M10 6h.1" />,
  funnel: <path d="M1.5 2h9L7 6.500V10L5 9V6.500z" />,
  skip: <path d="M2 2.5 6 6 2 9.500M6.5 2.500l4 3.5-4 3.5" />,
  dash: <path d="M2 6h8" />,
};

/** Shows a state as a shape and a word. */
export function Badge({ state, text }: { readonly state: BadgeState; readonly text?: string }) {
  const [tone, shape] = badges[state];
  return (
    <span class={`badge tone-${tone}`}>
      <Drawing size={12} grid={12}>
        {shapes[shape]}
      </Drawing>
      {text ?? state.replace('_', ' ')}
    </span>
  );
}
