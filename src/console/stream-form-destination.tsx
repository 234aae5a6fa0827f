import { Panel } from './parts/page.tsx';
import type { StreamDraft } from './stream-draft.ts';
import {
  ChoiceField,
  Field,
  type FormProps,
  ProblemText,
  TextField,
} from './stream-form-field.tsx';

const at = 'destination.configuration.webhook_authorization';

const methods = {
  bearer: 'Bearer token',
  basic: 'User name and password',
  custom_header: 'A header of its own',
  oauth2_client_credentials: 'Access tokens (OAuth 2.0 client credentials)',
} as const;

/** Where events are sent, and how requests are authorized. Secrets are written and never read. */
export function DestinationForm(props: FormProps) {
  const { draft, set, problems } = props;
  return (
    <Panel title="Endpoint">
      <div class="stack form-narrow">
        <TextField
          label="URL"
          value={draft.endpoint}
          problem={problems['destination.configuration.webhook_endpoint']}
          input={{ maxLength: 2048, type: 'url' }}
          onText={(endpoint) => set({ endpoint })}
        />
        <ChoiceField
          label="Authorization"
          value={draft.method}
          choices={methods}
          onChoice={(method) => set({ method, secret: '' })}
        />
        <AuthorizationFields {...props} />
        <CertificateFields {...props} />
      </div>
    </Panel>
  );
}

function AuthorizationFields({ draft, set, problems }: FormProps) {
  const text = (
    key: 'username' | 'headerKey' | 'tokenEndpoint' | 'clientId' | 'scope' | 'audience',
    label: string,
    property: string,
  ) => (
    <TextField
      label={label}
      value={draft[key]}
      problem={problems[`${at}.${property}` as keyof typeof problems]}
      onText={(value) => set({ [key]: value })}
    />
  );
  const secret = (label: string) => (
    <TextField
      label={label}
      value={draft.secret}
      problem={problems[at]}
      hint={
        problems[at] === undefined
          ? 'Leave it empty to keep the present one. It cannot be read again.'
          : undefined
      }
      input={{ type: 'password', autocomplete: 'new-password', placeholder: 'unchanged' }}
      onText={(value) => set({ secret: value })}
    />
  );
  switch (draft.method) {
    case 'basic':
      return (
        <>
          {text('username', 'User name', 'username')}
          {secret('Password')}
        </>
      );
    case 'bearer':
      return secret('Token');
    case 'custom_header':
      return (
        <>
          {text('headerKey', 'Name of the header', 'header_key')}
          {secret('Value of the header')}
        </>
      );
    case 'oauth2_client_credentials':
      return (
        <>
          {text('tokenEndpoint', 'Token endpoint', 'token_endpoint')}
          {text('clientId', 'Client id', 'client_id')}
          {secret('Client secret')}
          {text('scope', 'Scope (optional)', 'scope')}
          {text('audience', 'Audience (optional)', 'audience')}
        </>
      );
  }
}

const certificates = {
  keep: 'Keep the present one',
  none: 'None',
  replace: 'A new one',
} as const;

function CertificateFields({ draft, set, problems }: FormProps) {
  const pem = (key: 'certificatePem' | 'privateKey', label: string) => (
    <Field label={label}>
      {(described) => (
        <textarea
          {...described}
          class="mono"
          rows={4}
          value={draft[key]}
          spellcheck={false}
          autocomplete="off"
          onInput={({ currentTarget }) => set({ [key]: currentTarget.value })}
        />
      )}
    </Field>
  );
  return (
    <>
      <ChoiceField<StreamDraft['certificate']>
        label="Client certificate for TLS"
        value={draft.certificate}
        choices={certificates}
        problem={problems['destination.configuration.client_certificate']}
        onChoice={(certificate) => set({ certificate })}
      />
      {draft.certificate === 'replace' && (
        <>
          {pem('certificatePem', 'Certificate and its chain, in PEM')}
          {pem('privateKey', 'Private key, in PEM')}
          <ProblemText problem={undefined} />
        </>
      )}
    </>
  );
}
