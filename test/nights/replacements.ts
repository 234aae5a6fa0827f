import { openPull } from '../helpers/pull.ts';
import { waitFor } from '../helpers/wait.ts';
import type { Bed } from './night.ts';
import type { Alerted } from './stores.ts';

/**
 * Returns a fault that puts an earlier copy of the store in place of it. What was acknowledged since may be lost;
 * an alert has to name it, and a reader whose last event is lost must not go on, also where its offset has another event.
 */
export const replacing =
  <Store extends Alerted>(prepare: (store: Store) => Promise<() => Promise<unknown>>) =>
  async (bed: Bed<Store>): Promise<void> => {
    const { store, nodes, more, losing, wrong } = bed;
    const { url, token } = nodes[0].running;
    const wentBack = () =>
      store.alerts.system().filter(({ alert }) => alert === 'store_went_back').length;
    const alertsBefore = wentBack();
    const reader = await openPull(`${url}/api/v2/events`, token);
    await losing(async () => {
      const replace = await prepare(store);
      await more(300);
      await replace();
    });
    await reader.ended;
    const last = reader.blocks.findLast(({ data }) => data?.event !== undefined);
    await more(600);
    const stored = new Set(await store.ids(nodes));
    if (last === undefined || stored.has(last.data.event.id)) wrong('a reader saw no lost event');
    const again = await openPull(`${url}/api/v2/events`, token, {
      'last-event-id': last?.id ?? '',
    });
    again.close();
    if (again.status !== 410) wrong(`a reader goes on after a lost event: ${again.status}`);
    await waitFor('an alert that the store went back', () => wentBack() > alertsBefore);
  };
