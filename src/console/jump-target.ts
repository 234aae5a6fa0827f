import { links } from './links.ts';

/** Pages by the prefixes of their ids. */
const pages: readonly (readonly [pattern: RegExp, page: (id: string) => string])[] = [
  [/^est_[A-Za-z0-9]{22}$/, links.stream],
  [/^evt_[A-Za-z0-9]{22}$/, links.event],
  [/^log_[A-Za-z0-9]{22}$/, links.log],
  [/^rdl_[A-Za-z0-9]{22}$/, links.redelivery],
  [/^dsm_[A-Za-z0-9]{22}$/, links.dismissal],
  // The grant of a bootstrap client has an id of 32 hexadecimal digits.
  [/^(?:cgr|api)_[A-Za-z0-9]{22,32}$|^rol_[0-9a-f]{16}$/, (id) => `${links.access}?q=${id}`],
  [/^[0-9a-f]{32}$/, links.client],
  [/^[a-z0-9-]+\|./, links.user],
  // A key that a publisher chose, such as a UUID.
  [/^[0-9a-f]{8}-[0-9a-f]{4}-/i, links.event],
];

/** Returns the page of what has an id; undefined when the id does not say what it is of. */
export function pageOf(id: string): string | undefined {
  return pages.find(([pattern]) => pattern.test(id))?.[1](id);
}

/** Returns the page of what somebody typed or pasted. */
export function targetOf(text: string): string | undefined {
  if (text === '') return undefined;
  return pageOf(text) ?? `${links.streams}?q=${encodeURIComponent(text)}`;
}
