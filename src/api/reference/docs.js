/* global SwaggerUIBundle */
// The reference page: Swagger UI over this tenant's OpenAPI document, and a form for a token. The
// token is held by this script alone: nothing is stored, a reload forgets it.

/** The token in use, and when it ends. */
let held;

const byId = (id) => document.getElementById(id);

void start();

async function start() {
  followColours();
  byId('by-secret').addEventListener('submit', doing(getToken));
  byId('by-paste').addEventListener('submit', doing(pasteToken));
  byId('forget').addEventListener('click', forget);
  const answer = await fetch('/api/v2/openapi.json').catch(() => undefined);
  if (answer?.ok !== true) {
    byId('reference').textContent =
      'The OpenAPI document cannot be read now. Reload the page to try again.';
    return;
  }
  show(adapted(await answer.json()));
}

// The operations

/** The document as this page shows it. */
function adapted(document) {
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
  // All refusals have one shape, and all answers the same headers: the page says so once.
  for (const response of Object.values(document.components.responses)) {
    delete response.headers;
    delete response.content;
  }
  // Requests go to where the page came from: the policy of the page allows no other origin.
  return { ...document, servers: [{ url: `${location.origin}/api/v2` }] };
}

const streamNote =
  'It cannot be tried here, because its answer goes on: use `curl -N` or a client of SSE.';

function isStream(operation) {
  return operation?.responses?.['200']?.content?.['text/event-stream'] !== undefined;
}

function show(document) {
  byId('about').textContent = `API reference, version ${document.info.version} of the API`;
  SwaggerUIBundle({
    spec: document,
    domNode: byId('reference'),
    layout: 'Reference',
    plugins: [plugin],
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    syntaxHighlight: { activated: true, theme: 'nord' },
    // Else Swagger UI asks a server of its makers about the document.
    validatorUrl: null,
    persistAuthorization: false,
    requestInterceptor: authorized,
    onComplete: () => listContents(document.tags),
  });
}

/** Of Swagger UI: the operations and schemas alone, each with its stage; tokens are ours. */
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
    link.addEventListener('click', () => {
      const heading = document.querySelector(`h3[data-tag="${CSS.escape(name)}"]`);
      heading?.scrollIntoView();
    });
    return link;
  });
  byId('contents').replaceChildren(...links);
}

// The token

function authorized(request) {
  const own = new URL(request.url, location.href).origin === location.origin;
  if (held !== undefined && own) request.headers['Authorization'] = `Bearer ${held}`;
  return request;
}

async function getToken() {
  const answer = await fetch('/oauth/token', {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id: byId('client-id').value,
      client_secret: byId('client-secret').value,
    }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error_description ?? body.message ?? answer.statusText);
  byId('client-secret').value = '';
  hold(body.access_token);
}

async function pasteToken() {
  const token = byId('token')
    .value.trim()
    .replace(/^Bearer\s+/i, '');
  const claims = claimsOf(token);
  if (claims === undefined) throw new Error('That is not a token: a token is a JWT, eyJ….….…');
  byId('token').value = '';
  hold(token);
}

function hold(token) {
  held = token;
  const { azp, client_id: other, exp, scope = '' } = claimsOf(token) ?? {};
  const until = exp === undefined ? '' : `, until ${new Date(exp * 1000).toLocaleString()}`;
  const scopes = scope === '' ? 0 : scope.split(' ').length;
  const client = azp ?? other ?? 'a client';
  say(`Token of ${client} with ${scopes} scope${scopes === 1 ? '' : 's'}${until}.`, 'good');
  byId('forget').hidden = false;
}

function forget() {
  held = undefined;
  byId('forget').hidden = true;
  say('No token: requests are answered with 401.', '');
}

function say(text, how) {
  byId('status').textContent = text;
  byId('status').className = how;
}

/** Read to be shown, not to be believed: the service verifies. */
function claimsOf(token) {
  try {
    const part = token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/');
    const bytes = Uint8Array.from(atob(part), (character) => character.codePointAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return undefined;
  }
}

/** Does what a form is for, and says why it could not. */
function doing(work) {
  return (event) => {
    event.preventDefault();
    work().catch((error) => say(`No token: ${error.message}`, 'bad'));
  };
}

/** Swagger UI knows its dark colours by a class. */
function followColours() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
  dark.addEventListener('change', follow);
  follow();
}
