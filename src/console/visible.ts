/** Runs work while the tab is visible, again after each time it was hidden. */
export async function whileVisible(
  ending: AbortSignal,
  work: (visible: AbortSignal) => Promise<unknown>,
): Promise<void> {
  while (!ending.aborted) {
    await visibility(true, ending);
    const hidden = new AbortController();
    const stop = (): void => hidden.abort();
    ending.addEventListener('abort', stop);
    void visibility(false, ending).then(stop);
    await work(hidden.signal).catch(() => undefined);
    ending.removeEventListener('abort', stop);
    await visibility(false, ending);
  }
}

async function visibility(isVisible: boolean, ending: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const check = (): void => {
      if (ending.aborted || document.hidden !== isVisible) {
        document.removeEventListener('visibilitychange', check);
        ending.removeEventListener('abort', check);
        resolve();
      }
    };
    document.addEventListener('visibilitychange', check);
    ending.addEventListener('abort', check);
    check();
  });
}
