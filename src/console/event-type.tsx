/** Shows an event type on one line; long ones are cut. */
export function EventType({ type }: { readonly type: string }) {
  return (
    <code class="event-type" title={type}>
      {type}
    </code>
  );
}
