import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { after } from '../clock.ts';
import { Icon } from './icon.tsx';

export type NoticeTone = 'ok' | 'warn' | 'bad' | 'info';

const icons = { ok: 'check', warn: 'warning', bad: 'warning', info: 'info' } as const;

/** Shows a message within a page. */
export function Notice({
  tone,
  children,
}: {
  readonly tone: NoticeTone;
  readonly children: ComponentChildren;
}) {
  return (
    <div class={`notice tone-${tone}`}>
      <Icon name={icons[tone]} size={14} />
      <div class="stack-tight grow">{children}</div>
    </div>
  );
}

interface Toast {
  readonly id: number;
  readonly tone: NoticeTone;
  readonly text: string;
}

const toasts = signal<readonly Toast[]>([]);
let lastToast = 0;

/** Says that an action has succeeded or failed, for some seconds; assistive technology reads it out. */
export function say(text: string, tone: NoticeTone = 'ok'): void {
  const id = ++lastToast;
  toasts.value = [...toasts.value.slice(-2), { id, tone, text }];
  after(tone === 'bad' ? 12_000 : 6_000, () => dismiss(id));
}

function dismiss(id: number): void {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Shows what {@link say} was called with. */
export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, tone, text }) => (
        <div key={id} class={`notice tone-${tone}`}>
          <Icon name={icons[tone]} size={14} />
          <span class="grow">{text}</span>
          <button
            type="button"
            class="button plain icon small"
            aria-label="Close this message"
            onClick={() => dismiss(id)}
          >
            <Icon name="close" size={12} />
          </button>
        </div>
      ))}
    </div>
  );
}
