import { actions, actionsQuery } from '../schemas/actions.ts';
import { type Operation, operation } from './operation.ts';

/** Describes the list of actions, which is always empty: clients that export a tenant request it. */
export function actionOperations(): Operation[] {
  return [
    operation({
      operationId: 'listActions',
      method: 'GET',
      path: '/actions/actions',
      summary: 'List actions (there are none)',
      tag: 'Actions',
      scopes: ['read:actions', 'read:event_streams'],
      lifecycle: 'Early Access',
      query: actionsQuery,
      success: 200,
      response: actions,
      handle: () => ({ body: { actions: [], total: 0, page: 0, per_page: 100 } }),
    }),
  ];
}
