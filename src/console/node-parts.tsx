import type { ComponentChildren } from 'preact';
import { Notice } from './parts/notice.tsx';
import { Page } from './parts/page.tsx';
import { sessionState } from './session.ts';

interface ServicePageProps {
  readonly title: string;
  readonly children: ComponentChildren;
}

/** A page about the whole service, which other tenants share: for operators of the first tenant alone. */
export function ServicePage({ title, children }: ServicePageProps) {
  const { value } = sessionState;
  if (value.kind !== 'signed-in') return null;
  const { role, is_first_tenant: isFirst } = value.session;
  if (role === 'operator' && isFirst) return <>{children}</>;
  return (
    <Page title={title}>
      <Notice tone="info">
        <p>
          {isFirst
            ? `Your role, ${role}, may not see this. The role operator may.`
            : 'This concerns the whole service, which several tenants share: the operators of its first tenant see it.'}
        </p>
      </Notice>
    </Page>
  );
}
