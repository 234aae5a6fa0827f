/* global SwaggerUIBundle */
// The reference page: Swagger UI over this tenant's OpenAPI document, and a form for a token. The
// token is a variable of this script: nothing is stored, a reload drops it.

/** The token in use. */
let accessToken;

const byId = (id) => document.getElementById(id);

void start();

async function start() {
  followColours();
  byId('by-secret').addEventListener('submit', onSubmit(getToken));
  byId('by-paste').addEventListener('submit', onSubmit(pasteToken));
  byId('forget').addEventListener('click', forget);
  prepareSearch();
  const response = await fetch('/api/v2/openapi.json').catch(() => undefined);
  if (response?.ok !== true) {
    byId('reference').textContent =
      'The OpenAPI document cannot be read now. Reload the page to try again.';
    return;
  }
  show(adapt(await response.json()));
}

// The operations

/** Returns the document as this page shows it. */
function adapt(document) {
  for (const path of Object.values(document.paths)) {
    for (const operation of Object.values(path)) {
      const scopes = (operation.security ?? []).flatMap((way) => Object.values(way).flat());
      const names = [...new Set(scopes)].map((scope) => `\`${scope}\``).join(' or ');
      const needs = names === '' ? '' : `Scope: ${names}`;
      const limits = isStream(operation) ? streamNote : '';
      operation.description = [operation.description, limits, needs].filter(Boolean).join('\n\n');
      for (const response of Object.values(operation.responses)) delete response.headers;
    }
  }
  // All errors have one shape, and all responses the same headers: the page describes them once.
  for (const response of Object.values(document.components.responses)) {
    delete response.headers;
    delete response.content;
  }
  // Requests go to the origin of the page: its policy allows no other.
  return { ...document, servers: [{ url: `${location.origin}/api/v2` }] };
}

const streamNote =
  'This page cannot try it, because its response does not end: use `curl -N` or an SSE client.';

function isStream(operation) {
  return operation?.responses?.['200']?.content?.['text/event-stream'] !== undefined;
}

function show(document) {
  operations = operationsOf(document);
  byId('about').textContent = `API reference, version ${document.info.version} of the API`;
  SwaggerUIBundle({
    spec: document,
    domNode: byId('reference'),
    layout: 'Reference',
    plugins: [plugin],
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    // The colours of the others are too pale to read.
    syntaxHighlight: { activated: true, theme: 'tomorrow-night' },
    // Otherwise Swagger UI sends the document to a server of its makers.
    validatorUrl: null,
    persistAuthorization: false,
    requestInterceptor: authorized,
    onComplete: () => {
      listContents(document.tags);
      completeLater(byId('reference'));
    },
  });
}

/** Reduces Swagger UI to operations, each with its stage, and schemas; this page handles tokens. */
function plugin({ React, specSelectors }) {
  const element = React.createElement;
  const stageAt = ({ operationProps }) => {
    const [path, method] = [operationProps.get('path'), operationProps.get('method')];
    return specSelectors.specJson().getIn(['paths', path, method, 'x-release-lifecycle']);
  };
  const nothing = () => () => null;
  return {
    components: {
      Reference: ({ getComponent }) =>
        element(
          'div',
          { className: 'swagger-ui' },
          element(getComponent('SvgAssets')),
          element(getComponent('errors', true)),
          element(getComponent('operations', true)),
          element(getComponent('Models', true)),
        ),
    },
    wrapComponents: {
      authorizeOperationBtn: nothing,
      OperationSummaryPath: (Original) => (props) =>
        element(
          React.Fragment,
          undefined,
          element(Original, props),
          stageOf(element, stageAt(props)),
        ),
    },
    statePlugins: {
      spec: {
        wrapSelectors: {
          allowTryItOutFor: () => (_state, path, method) =>
            !isStream(specSelectors.specJson().getIn(['paths', path, method])?.toJS()),
        },
      },
    },
  };
}

function stageOf(element, stage) {
  if (stage === undefined) return null;
  const name = stage.toLowerCase().replaceAll(' ', '-');
  return element('span', { className: `stage stage-${name}` }, stage);
}

function listContents(tags) {
  const links = tags.map(({ name }) => {
    const link = document.createElement('button');
    link.type = 'button';
    link.textContent = name;
    link.dataset.tag = name;
    link.addEventListener('click', () => {
      const heading = document.querySelector(`h3[data-tag="${CSS.escape(name)}"]`);
      heading?.scrollIntoView();
    });
    return link;
  });
  byId('contents').replaceChildren(...links);
}

// The search

/** What can be found: of each operation its id, its tag, and the text that is searched, in lower case. */
let operations = [];

function operationsOf({ paths }) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, summary, tags }]) => ({
      id: operationId,
      tag: tags[0],
      text: `${method} ${path} ${summary} ${operationId}`.toLowerCase(),
    })),
  );
}

/** Returns the operations whose text has every word of a query. */
function matchesOf(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return operations.filter(({ text }) => words.every((word) => text.includes(word)));
}

function prepareSearch() {
  const field = byId('search');
  const clear = () => {
    field.value = '';
    search();
    field.focus();
  };
  field.addEventListener('input', search);
  field.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') clear();
    if (event.key !== 'Enter') return;
    // Otherwise the same key press opens what gets the focus.
    event.preventDefault();
    firstMatch()?.focus();
  });
  byId('clear').addEventListener('click', clear);
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches('input, textarea, select')) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
}

/** Shows the matches of the query, and says how many they are. */
function search() {
  const query = byId('search').value.trim();
  const found = matchesOf(query);
  const count = query === '' ? '' : `${found.length} of ${operations.length} operations`;
  byId('matches').textContent = count;
  byId('intro').hidden = query !== '';
  byId('no-match').hidden = found.length > 0 || operations.length === 0;
  applySearch(query, found);
}

/**
 * Hides what does not match. Swagger UI would render the operations again at each letter, which takes
 * seconds, and drop what people have typed into them; it leaves the attribute `hidden` alone.
 */
function applySearch(query, found) {
  const ids = new Set(found.map(({ id }) => id));
  const tags = new Set(found.map(({ tag }) => tag));
  for (const block of document.querySelectorAll('.opblock')) {
    block.hidden = !ids.has(block.id.slice(block.id.lastIndexOf('-') + 1));
  }
  for (const heading of document.querySelectorAll('h3[data-tag]')) {
    heading.closest('.opblock-tag-section').hidden = !tags.has(heading.dataset.tag);
  }
  for (const link of byId('contents').children) link.hidden = !tags.has(link.dataset.tag);
  for (const models of document.querySelectorAll('section.models')) models.hidden = query !== '';
}

function firstMatch() {
  return [...document.querySelectorAll('.opblock-summary-control')].find(
    (control) => control.closest('[hidden]') === null,
  );
}

/** Completes what Swagger UI renders later, when operations and subjects are opened. */
function completeLater(reference) {
  const complete = () => {
    search();
    // Names and keyboard access that Swagger UI does not give them.
    for (const body of reference.querySelectorAll('textarea:not([aria-label])')) {
      body.setAttribute('aria-label', 'Request body');
    }
    for (const code of reference.querySelectorAll(
      ':is(.highlight-code pre, .curl, .table-container):not([tabindex])',
    )) {
      code.tabIndex = 0;
    }
  };
  // Attributes are not observed: it sets some itself.
  new MutationObserver(complete).observe(reference, {
    childList: true,
    subtree: true,
  });
  complete();
}

// The token

function authorized(request) {
  const own = new URL(request.url, location.href).origin === location.origin;
  if (accessToken !== undefined && own) request.headers['Authorization'] = `Bearer ${accessToken}`;
  return request;
}

async function getToken() {
  const response = await fetch('/oauth/token', {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id: byId('client-id').value,
      client_secret: byId('client-secret').value,
    }),
  });
  const body = await response.json();
  if (!response.ok) throw new Error(body.error_description ?? body.message ?? response.statusText);
  byId('client-secret').value = '';
  useToken(body.access_token);
}

async function pasteToken() {
  const token = byId('token')
    .value.trim()
    .replace(/^Bearer\s+/i, '');
  const claims = claimsOf(token);
  if (claims === undefined) throw new Error('The text is not a JWT (eyJ….….…).');
  byId('token').value = '';
  useToken(token);
}

function useToken(token) {
  accessToken = token;
  const { azp, client_id: other, exp, scope = '' } = claimsOf(token) ?? {};
  const until = exp === undefined ? '' : `, until ${new Date(exp * 1000).toLocaleString()}`;
  const scopes = scope === '' ? 0 : scope.split(' ').length;
  const client = azp ?? other ?? 'a client';
  showStatus(`Token of ${client} with ${scopes} scope${scopes === 1 ? '' : 's'}${until}.`, 'good');
  byId('forget').hidden = false;
}

function forget() {
  accessToken = undefined;
  byId('forget').hidden = true;
  showStatus('No token: requests get 401.', '');
}

function showStatus(text, className) {
  byId('status').textContent = text;
  byId('status').className = className;
}

/** Returns the claims of a token, unverified: they are only displayed. */
function claimsOf(token) {
  try {
    const part = token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/');
    const bytes = Uint8Array.from(atob(part), (character) => character.codePointAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

/** Returns a listener that runs the action of a form and shows its error. */
function onSubmit(action) {
  return (event) => {
    event.preventDefault();
    action().catch((error) => showStatus(`No token: ${error.message}`, 'bad'));
  };
}

/** Switches the dark colours of Swagger UI, which a class selects. */
function followColours() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
  dark.addEventListener('change', follow);
  follow();
}
