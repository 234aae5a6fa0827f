import assert from 'node:assert/strict';
import { deliveryBody, makeBodyFromText } from '../core/envelope.ts';
import { makeId } from '../core/ids.ts';
import { sampleData } from '../core/samples.ts';
import type { RandomBytes } from '../core/clock.ts';
import { issuerOf } from '../auth/issuer.ts';
import { streamParams } from '../schemas/schema.ts';
import { delivery, testEvent } from '../schemas/deliveries.ts';
import type { Store } from '../store/port/store.ts';
import { withEvent } from './deliveries.ts';
import type { EventBodies } from './event-bodies.ts';
import { noStream } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { conflict } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';

export interface TestDeps {
  readonly store: Pick<Store, 'recording'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'serviceName' | 'attributePrefix' | 'plainHttp' | 'limits'>;
  readonly eventBodies: Pick<EventBodies, 'read'>;
}

/** Creates the operation that sends a test event (docs/http-api.md#test-events). */
export function testOperations({ store, random, settings, eventBodies }: TestDeps): Operation[] {
  const { serviceName: service, attributePrefix: prefix } = settings;
  return [
    operation({
      operationId: 'sendTestEvent',
      method: 'POST',
      path: '/event-streams/:id/test',
      summary: 'Send a test event to an event stream',
      description: 'It is delivered like any other event, but is not part of the event log.',
      tag: 'Event streams',
      scopes: ['update:event_streams'],
      lifecycle: 'Generally Available',
      params: streamParams,
      body: {
        schema: testEvent,
        required: true,
        bytesMax: settings.limits.testEventBodyBytesMax,
        unparsed: true,
      },
      success: 202,
      response: delivery,
      errors: [404, 409],
      handle: async ({ tenant, params, body, now, trace, entry }) => {
        const toRead = { bytes: body, form: 'test' } as const;
        const sent = await eventBodies.read(tenant.id, toRead, async ({ events }) => events[0]);
        assert.ok(sent !== undefined);
        const { type, extensionsJson } = sent;
        const issuer = issuerOf(tenant.domain, settings.plainHttp(tenant.domain));
        const dataJson =
          sent.dataJson ?? JSON.stringify(sampleData(type, { now, service, issuer }));
        const id = makeId('evt_', now, random);
        const parts = { id, type, time: now, dataJson, extensionsJson, service, prefix };
        const text = makeBodyFromText({ ...parts, tenantName: tenant.name, purpose: 'test' });
        const event = { id, type, time: now, body: text, trace };
        const recording = store.recording(entry(params.id, id));
        const result = await recording.deliveries.addTest(tenant.id, params.id, event);
        if (result === 'unknown') throw noStream(params.id);
        if (result === 'disabled') {
          throw conflict('The event stream is disabled.', 'stream_disabled');
        }
        const record = { id, event_stream_id: params.id, event_type: type };
        const pending = { ...record, status: 'pending', attempts: [] };
        return { json: withEvent(pending, deliveryBody(text, prefix, params.id)) };
      },
    }),
  ];
}
