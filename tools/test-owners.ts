import {
  AsyncLocalStorage,
  type AsyncResource,
  createHook,
  executionAsyncId,
  type HookCallbacks,
} from 'node:async_hooks';

/**
 * Preload of `tools/test.ts`, before the ones that import `node:test`: says of all code which test it belongs to.
 *
 * The test runner asks that to fail the test whose error nobody has caught. It follows every promise by hooks, which
 * makes an `await` fifty times as slow. A context has the same answer for free, so hooks follow other resources only.
 */
const builtin = process.getBuiltinModule('node:async_hooks') as {
  createHook: typeof createHook;
  executionAsyncId: typeof executionAsyncId;
};
/** The id of the test or suite that runs. */
const owner = new AsyncLocalStorage<number>();

// The runner takes both from here when it is loaded.
builtin.createHook = ({ init, destroy }: HookCallbacks) =>
  createHook({
    trackPromises: false,
    init: (id, type, trigger, resource) => {
      init?.(id, type, owner.getStore() ?? trigger, resource);
      if (type === 'Test') runAsOwner(id, resource as AsyncResource);
    },
    ...(destroy === undefined ? {} : { destroy }),
  });
builtin.executionAsyncId = () => owner.getStore() ?? executionAsyncId();

/** Runs what a test or suite runs in its context. */
function runAsOwner(id: number, test: AsyncResource): void {
  const run = test.runInAsyncScope.bind(test);
  test.runInAsyncScope = (action, receiver, ...words) =>
    run(() => owner.run(id, () => action.apply(receiver as never, words)));
}
