import type { ServerResponse } from 'node:http';
import type { Sink, SinkEvents } from '../../pull/sink.ts';
import { serverLimits } from './server.ts';

/**
 * Connects a response whose head was written with the writer of its body. The default of
 * {@link Sink.stallsAfter} is the server's timeout of an inactive connection; on `stalled` the writer
 * decides what happens.
 */
export function openSink(response: ServerResponse, open: (sink: Sink) => SinkEvents): void {
  const events = open({
    get waiting() {
      return response.writableLength;
    },
    get isBlocked() {
      return response.writableNeedDrain;
    },
    write: (chunk) => void response.write(chunk),
    // A pipelined response has no socket until the one before has ended.
    stallsAfter: (ms = serverLimits.connectionTimeout) => void response.socket?.setTimeout(ms),
    end: () => void response.end(),
    cut: () => void response.destroy(),
  });
  response.on('drain', () => events.drained());
  response.on('timeout', () => events.stalled());
  response.on('close', () => events.gone());
  // A connection that breaks during a write cannot carry a response any more.
  response.on('error', () => {});
}
