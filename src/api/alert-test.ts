import { alertTest, type AlertTestShown } from '../schemas/alert-test.ts';
import type { Store } from '../store/port/store.ts';
import { tooManyAlertTests } from './http/problem.ts';
import type { AlertTestResult, NodeFacts } from './node-facts.ts';
import { type Operation, operation } from './operation.ts';
import { type OperatorsDeps, operatorsText, requireOperator } from './operators.ts';

export interface AlertTestDeps extends OperatorsDeps {
  readonly store: Pick<Store, 'auditLog'>;
  readonly node: Pick<NodeFacts, 'sendTestAlert'>;
}

/** Creates the operation that sends a test alert (docs/http-api.md#test-alert). */
export function alertTestOperations(deps: AlertTestDeps): Operation[] {
  let isSending = false;
  return [
    operation({
      operationId: 'sendTestAlert',
      method: 'POST',
      path: '/alerts/test',
      summary: 'Send a test alert through every channel',
      description: `${operatorsText} A node sends one at a time: otherwise 429.`,
      tag: 'Service',
      scopes: ['update:event_streams'],
      lifecycle: 'Early Access',
      extension: true,
      success: 200,
      response: alertTest,
      admit: (call) => requireOperator(deps, call),
      handle: async ({ tenant, entry }) => {
        if (isSending) throw tooManyAlertTests();
        isSending = true;
        try {
          await deps.store.auditLog.add([{ entry: entry(), count: 1, ageMs: 0 }]);
          const results = await deps.node.sendTestAlert(tenant);
          const body: AlertTestShown = { channels: results.map(showResult) };
          return { body };
        } finally {
          isSending = false;
        }
      },
    }),
  ];
}

function showResult({ channel, reason }: AlertTestResult): AlertTestShown['channels'][number] {
  return reason === undefined
    ? { channel, sent: true }
    : { channel, sent: false, error_message: reason };
}
