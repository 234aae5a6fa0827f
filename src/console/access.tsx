import { Api, Apis } from './access-apis.tsx';
import { Client, Clients } from './access-clients.tsx';
import { Grant, Grants } from './access-grants.tsx';
import { ForOperators } from './access-parts.tsx';
import { Role, Roles } from './access-roles.tsx';
import { type AccessTab, tabOf } from './access-words.ts';
import { links } from './links.ts';
import { useParameters } from './location.ts';
import { Allowed } from './parts/action.tsx';
import { Page } from './parts/page.tsx';
import './access.css';

const tabs = {
  clients: { text: 'Clients', List: Clients, One: Client },
  apis: { text: 'APIs', List: Apis, One: Api },
  grants: { text: 'Grants', List: Grants, One: Grant },
  roles: { text: 'Roles', List: Roles, One: Role },
} as const;

/** Who may do what: clients, APIs, grants and roles, as lists; or the one that the address asks for. */
export function Access() {
  const parameters = useParameters();
  const id = parameters.get('q');
  const shown = tabOf(parameters.get('tab'), id);
  const { text, List, One } = tabs[shown];
  const crumb = { text: `Access: ${text}`, href: hrefOf(shown) };
  const otherwise = (
    <Page title="Access">
      <ForOperators what="clients and what they may do" />
    </Page>
  );
  return (
    <Allowed scope="read:clients" otherwise={otherwise}>
      {id === undefined ? (
        <Page title="Access">
          <Tabs shown={shown} />
          <List key={shown} />
        </Page>
      ) : (
        <One key={`${shown} ${id}`} id={id} crumb={crumb} />
      )}
    </Allowed>
  );
}

function hrefOf(tab: AccessTab): string {
  return tab === 'clients' ? links.access : `${links.access}?tab=${tab}`;
}

function Tabs({ shown }: { readonly shown: AccessTab }) {
  return (
    <nav class="tabs access-tabs" aria-label="Parts of access">
      {(Object.keys(tabs) as AccessTab[]).map((tab) => (
        <a
          key={tab}
          href={hrefOf(tab)}
          {...(tab === shown ? { 'aria-current': 'page' as const } : {})}
        >
          {tabs[tab].text}
        </a>
      ))}
    </nav>
  );
}
