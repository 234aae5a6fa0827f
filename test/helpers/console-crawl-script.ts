import type { BrowserContext } from 'playwright-core';
import { contentSelectors } from './console-page.ts';

/** What a crawl runs within the pages. */

/** Call it before the first page of the context is opened. */
export async function prepareCrawl(context: BrowserContext): Promise<void> {
  await context.addInitScript({ content: observe });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
}

const { signedIn, signedOut } = contentSelectors;
const content = JSON.stringify(`${signedIn}, ${signedOut}`);
/** Returns whether the content of the page was there, and nothing on its way any more, within 200 checks. */
export const settle = `crawl.until(200, () => crawl.pending === 0 && document.querySelector(${content}) !== null)`;

/** Returns whether the console went there without another document: its router shows the page anew. */
export const goTo = (url: string): string => `crawl.goTo(${JSON.stringify(url)})`;

/** Returns the open requests, what is still loaded, and the text of the page. */
export const describe = `window.crawl?.pending + ' requests; loading: ' +
  Array.from(document.querySelectorAll('.skeleton'), (each) =>
    each.closest('dialog, section')?.innerText.slice(0, 100)).join(' | ') +
  '; ' + document.body.innerText.slice(0, 300)`;

/** What asks for the name of something before it is deleted gets it. */
export const fillTyped = `for (const label of document.querySelectorAll('dialog[open] label')) {
  const [code, input] = [label.querySelector('code'), label.querySelector('input')];
  if (code === null || input === null || input.value !== '') continue;
  input.value = code.textContent;
  input.dispatchEvent(new InputEvent('input', { bubbles: true }));
}`;

/** Runs before the scripts of a page: sees requests that a person causes, and writes to the clipboard. */
const observe = `window.crawl = (() => {
  const crawl = { pending: 0, requests: 0, writes: 0, marked: false };
  const send = window.fetch;
  window.fetch = (input, init) => {
    if (init?.headers?.['leat-background'] !== undefined) return send(input, init);
    crawl.requests += 1;
    crawl.pending += 1;
    const end = () => void (crawl.pending -= 1);
    const response = send(input, init);
    response.then(end, end);
    return response;
  };
  const write = navigator.clipboard?.writeText.bind(navigator.clipboard);
  if (write) navigator.clipboard.writeText = (text) => { crawl.writes += 1; return write(text); };
  const opened = () => [...document.querySelectorAll('dialog[open], :popover-open, details[open]')];
  // A form that grows by a row has more fields, which may have no text.
  const words = () => document.body.innerText.replace(/\\d+/g, '0') + ' ' +
    document.querySelectorAll('input, select, textarea, [aria-pressed=true]').length;
  const isChecked = (element) => element?.checked ?? element?.getAttribute('aria-pressed') ?? null;
  let was;
  crawl.mark = (index) => {
    crawl.marked = true;
    const pressed = document.querySelector('[data-crawl="' + index + '"]');
    was = {
      pressed, href: location.href, requests: crawl.requests, writes: crawl.writes, opened: opened(),
      active: document.activeElement, theme: document.documentElement.dataset.theme, words: words(),
      checked: isChecked(pressed),
    };
  };
  crawl.effects = () => {
    const found = [];
    if (location.href !== was.href) found.push('address');
    if (crawl.requests > was.requests) found.push('request');
    const now = opened();
    if (now.length !== was.opened.length || now.some((each) => !was.opened.includes(each))) found.push('dialog');
    // A press alone gives the focus to the element, or to what is around it.
    const { activeElement } = document;
    if (activeElement !== document.body && activeElement !== was.active &&
        activeElement?.contains(was.pressed) !== true) found.push('focus');
    return found;
  };
  // Checks every 5 ms, and counts checks: on a machine that is busy the page needs as many, and more time.
  crawl.until = (checks, isTrue) => new Promise((resolve) => {
    const check = (left) => {
      if (isTrue()) resolve(true);
      else if (left === 0) resolve(false);
      else setTimeout(check, 5, left - 1);
    };
    check(checks);
  });
  // Whether a click gets to an element: neither is it disabled nor is something else above it.
  crawl.canClick = (checks, index) => crawl.until(checks, () => {
    const element = document.querySelector('[data-crawl="' + index + '"]');
    if (element === null || element.disabled) return false;
    element.scrollIntoViewIfNeeded();
    const { x = 0, y = 0, width = 0, height = 0 } = element.getClientRects()[0] ?? {};
    const top = document.elementFromPoint(x + width / 2, y + height / 2);
    return (element.closest('label') ?? element).contains(top);
  });
  // A page without anything takes the place of the present one, so that nothing of it is left: what is open
  // within the frame, and messages, go with the document only.
  crawl.goTo = async (url) => {
    const { origin, searchParams } = new URL(url);
    // What is not saved is found again as long as the document is there.
    if (origin !== location.origin || searchParams.has('edit')) return false;
    if (document.querySelector('.shell') === null) return false;
    const move = (address) => {
      history.pushState(null, '', address);
      dispatchEvent(new PopStateEvent('popstate'));
    };
    move('/console/nothing');
    const isEmpty = () => document.title.startsWith('Nothing here');
    if (!(await crawl.until(200, isEmpty)) || opened().length > 0) return false;
    if (document.querySelector('.toasts')?.children.length !== 0) return false;
    move(url);
    await crawl.until(200, () => !isEmpty());
    // What a page asks for it asks for once it is drawn.
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    await new Promise((resolve) => setTimeout(resolve));
    return true;
  };
  crawl.effect = (checks, other) =>
    crawl.until(checks, () => crawl.effects().length > 0 || (other !== 'nothing' && crawl.allEffects().includes(other)));
  crawl.allEffects = () => {
    const found = crawl.effects();
    if (crawl.writes > was.writes) found.push('clipboard');
    if (document.documentElement.dataset.theme !== was.theme) found.push('theme');
    if (words() !== was.words) found.push('text');
    if (isChecked(was.pressed) !== was.checked) found.push('checked');
    return found;
  };
  return crawl;
})();`;

/** Returns the elements that can be pressed now, as JSON, and numbers them. */
export const collectAll = `((names) => {
  const selector = 'button, a[href], summary, input[type=checkbox], input[type=radio], ' +
    '[role=button], [role=link], [role=menuitem], [role=tab], [role=checkbox]';
  const plain = (text) => {
    let name = text.replace(/\\s+/g, ' ').trim();
    for (const each of names) name = name.replaceAll(each, '…');
    return name
      .replace(/\\b[a-z]{3,4}_[\\w-]+…?[\\w-]*|(?=[\\w|-]*\\d)[\\w|-]{16,}/g, '…')
      .replace(/\\d[\\d\\s.,:]*/g, '0 ').replace(/0 (s|min|h|d) ago|just now/g, 'ago').trim().slice(0, 80);
  };
  const kindOf = (href) => {
    const url = new URL(href, location.href);
    if (url.hash !== '') return url.hash;
    if (url.origin !== location.origin) return url.origin;
    const path = url.pathname.replace(/(\\/console\\/[a-z]+)\\/.+/, '$1/:id');
    return path + ['tab', 'view', 'edit', 'live', 'sort', 'status', 'since', 'period']
      .filter((name) => url.searchParams.has(name))
      .map((name) => ' ' + name + '=' + url.searchParams.get(name)).join('');
  };
  // Also behind a dialog, where those of the page were numbered before.
  for (const element of document.querySelectorAll('[data-crawl]')) element.removeAttribute('data-crawl');
  const modal = [...document.querySelectorAll('dialog[open]')].at(-1);
  const elements = [];
  const hrefs = [];
  let index = 0;
  for (const element of (modal ?? document).querySelectorAll(selector)) {
    if (element.disabled || element.getAttribute('aria-disabled') === 'true') continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const field = element.matches('input') ? element.closest('label') : null;
    const role = element.getAttribute('role') ??
      (element.matches('input') ? element.type : element.localName === 'a' ? 'link' : 'button');
    const row = element.closest('tbody tr, main li, article');
    const copied = element.cloneNode(true);
    for (const hidden of copied.querySelectorAll('.visually-hidden')) hidden.remove();
    const own = element.getAttribute('aria-label') ?? (field ?? copied).textContent ?? '';
    const text = own.trim() || element.getAttribute('title') ||
      element.querySelector('[alt]')?.alt || '';
    const href = element.localName === 'a' ? element.href : '';
    if (href !== '') hrefs.push(href);
    // A link to the page that is open, or the choice in force: that has to do something once another one is.
    if (href === location.href) continue;
    if (element.matches('[role=group] > [aria-pressed=true], input[type=radio]:checked')) continue;
    const column = row?.localName === 'tr' ? element.closest('td, th')?.cellIndex : '';
    const name = row !== null && href !== ''
      ? 'row ' + column + ' link to ' + kindOf(href)
      : (row !== null ? 'row ' + column + ' ' : '') + role + ' ' +
        (row !== null && role === 'checkbox' ? '' : plain(text)) +
        (href === '' ? '' : ' to ' + kindOf(href));
    if (elements.some((each) => each.name === name)) continue;
    element.setAttribute('data-crawl', index);
    const isFrame = modal === undefined &&
      element.closest('header.top, nav.side, nav.bottom, .skip') !== null;
    const isRisky = element.matches('[type=submit], .danger') ||
      (modal !== undefined && element.closest('footer') !== null && !/^(Cancel|Close)/.test(text));
    const turn = text === 'Sign out' ? 'last' : isRisky ? 'later' : 'first';
    elements.push({ index, name, turn, href, isFrame, isForKeys: element.matches('.skip') });
    index += 1;
  }
  return JSON.stringify({ elements, hrefs });
})`;
