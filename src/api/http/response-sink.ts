import type { ServerResponse } from 'node:http';
import type { Sink, SinkEvents } from '../../pull/sink.ts';
import { serverLimits } from './server.ts';

/**
 * Connects a response whose head was written to whoever writes its body. The server's own time-out
 * of a connection on which nothing moves is the usual one of {@link Sink.stallsAfter}; a response
 * that hears of it decides by itself what then happens.
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
    // A response that was asked for while another is under way has no socket yet.
    stallsAfter: (ms = serverLimits.connectionTimeout) => void response.socket?.setTimeout(ms),
    end: () => void response.end(),
    cut: () => void response.destroy(),
  });
  response.on('drain', () => events.drained());
  response.on('timeout', () => events.stalled());
  response.on('close', () => events.gone());
  // A connection that breaks while it is written to is gone; nobody can be told more.
  response.on('error', () => {});
}
