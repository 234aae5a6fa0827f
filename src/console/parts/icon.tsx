import type { ComponentChildren } from 'preact';

/** Shapes of 16 × 16, drawn in the colour of the text. */
const shapes = {
  overview: 'M2 9h3l2-6 3 11 2-5h2',
  streams: 'M2 4c3-2 5-2 6 0s3 2 6 0M2 8.5c3-2 5-2 6 0s3 2 6 0M2 13c3-2 5-2 6 0s3 2 6 0',
  failures: 'M8 2 15 14H1L8 2Zm0 4.5V10m0 1.8v.4',
  events: 'M2 3h12M2 8h12M2 13h8',
  publish: 'M2 8 14 2l-4 12-2.5-4.5L2 8Zm5.5 1.5L14 2',
  logs: 'M4 1.5h6L13 4.5V14.5H4zM6.5 7h4M6.5 10h4',
  access: 'M5.5 7.5a3 3 0 1 1 2.8 3L7 12H5.5v1.5H4V15H1.500V12.500L5.6 8.500M10.5 5.500v.1',
  users: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-6 6.500c0-3 2.5-4.5 6-4.500s6 1.5 6 4.5',
  nodes: 'M2 2.500h12v4H2zM2 9.500h12v4H2zM4.5 4.500h.1M4.5 11.500h.1',
  settings:
    'M2 4h7m4 0h1M2 12h1m4 0h7M11 6a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM5 14a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z',
  more: 'M3 8h.1M8 8h.1M13 8h.1',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.400L14 14',
  copy: 'M5.5 5.500h8v8h-8zM10.5 5.500v-3h-8v8h3',
  check: 'M2.5 8.5 6 12l7.5-8',
  close: 'M3 3l10 10M13 3 3 13',
  theme: 'M8 1.500a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM8 1.500v13',
  user: 'M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6Zm-6 6.500c0-3 2.5-4.5 6-4.500s6 1.5 6 4.5',
  warning: 'M8 2 15 14H1L8 2Zm0 4.500V10m0 1.800v.4',
  info: 'M8 1.500a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM8 7v4.500M8 4.500v.2',
} as const;

export type IconName = keyof typeof shapes;

/** Draws an icon. It has no text of its own: name the control that it is in. */
export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <Drawing size={size} grid={16}>
      <path d={shapes[name]} />
    </Drawing>
  );
}

interface DrawingProps {
  /** Pixels of each side. */
  readonly size: number;
  /** Units of each side that the lines are drawn in. */
  readonly grid: number;
  readonly children: ComponentChildren;
}

/** Draws lines in the colour of the text. */
export function Drawing({ size, grid, children }: DrawingProps) {
  return (
    <svg
      width={size}
      height={size}
      viewBox={`0 0 ${grid} ${grid}`}
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}
