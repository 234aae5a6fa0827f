import type { NodeSettingsShown } from '../schemas/node-settings.ts';
import { serviceDelays } from './retry-times.ts';
import { useRead } from './queries.ts';
import { isFirstOperator, sessionState } from './session.ts';

/**
 * Returns the waits of streams without a schedule of their own, in seconds; `undefined` for those who may
 * not see settings, and where they are not needed.
 */
export function useServiceDelays(isNeeded: boolean): readonly number[] | undefined {
  const { value } = sessionState;
  const mayRead = isNeeded && value.kind === 'signed-in' && isFirstOperator(value.session);
  const { data } = useRead<NodeSettingsShown>(mayRead ? '/settings' : undefined);
  return data && serviceDelays(data.settings);
}
