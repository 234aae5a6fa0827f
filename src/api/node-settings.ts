import { accessTokenKeys, type KeyUse, webhookKeys } from '../auth/key-use.ts';
import { signerOf } from '../auth/keys.ts';
import type { Millis } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import type { ShownSetting } from '../core/setting.ts';
import { nodeSettings, type NodeSettingsShown } from '../schemas/node-settings.ts';
import type { Store } from '../store/port/store.ts';
import type { AlertTarget, NodeFacts } from './node-facts.ts';
import { type Operation, operation } from './operation.ts';
import { type OperatorsDeps, operatorsText, requireOperator } from './operators.ts';

export interface NodeSettingsDeps extends OperatorsDeps {
  readonly store: Pick<Store, 'keys' | 'webhookKeys'>;
  readonly node: Pick<NodeFacts, 'settings' | 'alertChannels'>;
}

/** Creates the operation that reads the settings of this node (docs/http-api.md#settings). */
export function nodeSettingOperations(deps: NodeSettingsDeps): Operation[] {
  const { store } = deps;
  return [
    operation({
      operationId: 'readSettings',
      method: 'GET',
      path: '/settings',
      summary: 'Read the settings, signing keys and alert channels of the service',
      description: `${operatorsText} Of the node that responds. No secret is in the response.`,
      tag: 'Service',
      scopes: ['read:event_streams'],
      lifecycle: 'Early Access',
      extension: true,
      success: 200,
      response: nodeSettings,
      admit: (call) => requireOperator(deps, call),
      handle: async ({ tenant, now }) => {
        const [ofTokens, ofWebhooks] = await Promise.all([
          keysOf(store, accessTokenKeys, tenant.id, now),
          keysOf(store, webhookKeys, tenant.id, now),
        ]);
        const body: NodeSettingsShown = {
          settings: deps.node.settings.map(showSetting),
          keys: [...ofTokens, ...ofWebhooks],
          alert_channels: deps.node.alertChannels.map(showChannel),
        };
        return { body };
      },
    }),
  ];
}

async function keysOf(
  store: NodeSettingsDeps['store'],
  { part, signs }: KeyUse<unknown>,
  tenant: number,
  now: Millis,
): Promise<NodeSettingsShown['keys']> {
  const keys = await store[part].list(tenant, now);
  const signer = signerOf(keys, now);
  return keys.map(({ kid, signsFrom, expiresAt }) => ({
    kid,
    signs: signs === 'tokens' ? 'access tokens' : signs,
    signs_from: formatTime(signsFrom),
    expires_at: expiresAt === undefined ? null : formatTime(expiresAt),
    is_signing: kid === signer?.kid,
  }));
}

function showSetting(shown: ShownSetting): NodeSettingsShown['settings'][number] {
  const { name, value = null, fallback = null, isDefault, meaning } = shown;
  return { name, value, default: fallback, is_default: isDefault, meaning };
}

function showChannel({
  channel,
  target,
}: AlertTarget): NodeSettingsShown['alert_channels'][number] {
  return { channel, ...(target === undefined ? {} : { target }) };
}
