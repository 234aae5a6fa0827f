import { waitFor } from '../helpers/wait.ts';
import type { ApiFixture, ApiResponse } from './fixture.ts';

/** Waits until a dismissal is done, and returns it. */
export async function doneDismissal(
  fixture: Pick<ApiFixture, 'send'>,
  id: string,
): Promise<ApiResponse> {
  let read = await fixture.send('GET', `/dismissals/${id}`);
  await waitFor('the dismissal', async () => {
    read = await fixture.send('GET', `/dismissals/${id}`);
    return read.body.status === 'done';
  });
  return read;
}

/** Dismisses every failure of the tenant. */
export async function dismissAll(fixture: Pick<ApiFixture, 'send'>): Promise<void> {
  const { body } = await fixture.send('POST', '/dismissals', { all: true });
  await doneDismissal(fixture, body.id);
}
