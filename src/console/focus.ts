const focusable = 'a[href], button:not(:disabled), input, select, textarea, summary';

/**
 * Keeps the focus near its place: when the element that has it goes away, as a button does whose work is
 * done, what is around it gets the focus. Without, somebody who uses the keyboard begins again at the top.
 */
export function keepFocus(): void {
  let places: Element[] = [];
  document.addEventListener('focusin', ({ target }) => {
    places = target instanceof Element ? around(target) : [];
  });
  // Somebody who presses a button of the mouse elsewhere has left.
  document.addEventListener('pointerdown', ({ target }) => {
    if (target instanceof Element && places[0]?.contains(target) !== true) places = [];
  });
  const observer = new MutationObserver(() => {
    const [left, ...outer] = places;
    if (left === undefined || left.isConnected || document.activeElement !== document.body) return;
    for (const place of outer) {
      if (!place.isConnected) continue;
      const found = placeIn(place);
      if (found === null) continue;
      if (!found.matches(focusable)) found.setAttribute('tabindex', '-1');
      found.focus({ preventScroll: true });
      return;
    }
  });
  observer.observe(document.body, { childList: true, subtree: true });
}

/**
 * Moves the focus to the first empty field of a form, else to its first: a press that has nothing to do
 * leads to what is to be filled in.
 */
export function focusField(form: HTMLFormElement): void {
  const field =
    form.querySelector<HTMLElement>('input:enabled:placeholder-shown') ??
    form.querySelector<HTMLElement>('input, textarea');
  field?.focus();
}

/** Returns an element and all that it is in, inner ones first. */
function around(element: Element): Element[] {
  const found = [element];
  for (let at = element.parentElement; at !== null; at = at.parentElement) found.push(at);
  return found;
}

/** Returns what takes the focus within an element: a control, else the heading of the part or the page. */
function placeIn(element: Element): HTMLElement | null {
  if (element.matches('main')) return element.querySelector('h1');
  if (element === document.body) return document.querySelector('h1');
  return (
    element.querySelector<HTMLElement>(focusable) ??
    (element.matches('section') ? element.querySelector('h2') : null)
  );
}
