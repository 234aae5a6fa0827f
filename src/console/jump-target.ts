import { links } from './links.ts';

/** Pages by the prefixes of their ids. */
const pages: readonly (readonly [pattern: RegExp, page: (id: string) => string])[] = [
  [/^est_[A-Za-z0-9]{22}$/, links.stream],
  [/^evt_[A-Za-z0-9]{22}$/, links.event],
  [/^log_[A-Za-z0-9]{22}$/, links.log],
  [/^rdl_[A-Za-z0-9]{22}$/, links.redelivery],
  [/^dsm_[A-Za-z0-9]{22}$/, links.dismissal],
  [/^(?:cgr|api)_[A-Za-z0-9]{22}$|^rol_[0-9a-f]{16}$/, (id) => `${links.access}?q=${id}`],
  [/^[a-z0-9-]+\|/, (id) => `${links.users}?q=${encodeURIComponent(id)}`],
  // A key that a publisher chose, such as a UUID.
  [/^[0-9a-f]{8}-[0-9a-f]{4}-/i, links.event],
];

/** Returns the page of what somebody typed or pasted. */
export function targetOf(text: string): string | undefined {
  if (text === '') return undefined;
  const page = pages.find(([pattern]) => pattern.test(text))?.[1];
  return page === undefined ? `${links.streams}?q=${encodeURIComponent(text)}` : page(text);
}
