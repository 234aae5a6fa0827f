import { effect, signal } from '@preact/signals';

const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

/** The colours that were chosen in this browser; those of the system at first. */
export const theme = signal<Theme>(themes.find((each) => each === stored()) ?? 'system');

/** Begins to apply and to keep the choice. */
export function applyTheme(): void {
  effect(() => {
    const { value } = theme;
    if (value === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = value;
    try {
      localStorage.setItem('leat-theme', value);
    } catch {
      // Storage may be forbidden; then the choice lasts as long as the page.
    }
  });
}

function stored(): string | null {
  try {
    return localStorage.getItem('leat-theme');
  } catch {
    return null;
  }
}
