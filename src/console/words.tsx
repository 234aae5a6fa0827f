import { Fragment } from 'preact';
import { words } from '../core/words.ts';
import { Page } from './parts/page.tsx';

/** The words that the console, the API and the command line use with a meaning of their own. */
export function Words() {
  return (
    <Page title="Words">
      <dl class="facts">
        {words.map(({ word, meaning }) => (
          <Fragment key={word}>
            <dt>{word}</dt>
            <dd>{meaning}</dd>
          </Fragment>
        ))}
      </dl>
    </Page>
  );
}
