import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { after } from './clock.ts';
import { failureOf } from './request.ts';

/** Longer than two heartbeats of the server (15 s). */
const silenceMs = 40_000;

interface Receivers {
  readonly onOpen: () => void;
  readonly onEvent: (message: EventSourceMessage) => void;
}

/**
 * Reads server-sent events until the server ends the response, which it does after some minutes. Throws
 * when it is refused or breaks, and when nothing arrives for so long that it must have broken.
 */
export async function readServerEvents(
  url: string,
  ending: AbortSignal,
  { onOpen, onEvent }: Receivers,
): Promise<void> {
  const silence = new AbortController();
  const response = await fetch(url, {
    signal: AbortSignal.any([ending, silence.signal]),
    credentials: 'same-origin',
    cache: 'no-store',
  });
  if (!response.ok || response.body === null) {
    throw failureOf(response, await response.text());
  }
  onOpen();
  const parser = createParser({ onEvent });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const cancel = after(silenceMs, () => silence.abort());
    const { done, value } = await reader.read().finally(cancel);
    if (done) return;
    parser.feed(value);
  }
}
