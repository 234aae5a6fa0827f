import { type ComponentChildren, createContext } from 'preact';
import { now } from '../clock.ts';
import { errorOf, isAway, type Read } from '../queries.ts';
import { RequestFailed } from '../request.ts';
import { Notice } from './notice.tsx';
import { Time } from './time.tsx';

/** Whether what is shown is that of the former address, until the server responds. */
export const IsFormer = createContext(false);

interface LoadedProps<T> {
  readonly read: Read<T>;
  readonly children: (data: T) => ComponentChildren;
  /** Lines of the skeleton. */
  readonly lines?: number;
}

/** Shows what was read, or why it could not be; a skeleton while nothing is there. */
export function Loaded<T>({ read, children, lines = 6 }: LoadedProps<T>) {
  const error = errorOf(read);
  if (read.data !== undefined) {
    return (
      <IsFormer.Provider value={read.isPlaceholderData}>
        {error !== null && !isAway.value && <Stale read={read} error={error} />}
        {read.isPlaceholderData && <Former />}
        {children(read.data)}
      </IsFormer.Provider>
    );
  }
  if (error !== null) return <Problem error={error} retry={() => void read.refetch()} />;
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

/** Says, where that takes a while, that what is shown is not yet what was asked for. */
function Former() {
  return (
    <p class="former notice" role="status">
      Reading … Until then the former content is shown.
    </p>
  );
}

/** Says that data are old because they could not be read again. */
function Stale<T>({ read, error }: { readonly read: Read<T>; readonly error: unknown }) {
  return (
    <Notice tone="warn">
      <div class="row row-spread">
        <span>
          {explain(error).title} These data are from <ReadAt read={read} />.
        </span>
        <button type="button" class="button small" onClick={() => void read.refetch()}>
          Read again
        </button>
      </div>
    </Notice>
  );
}

interface ProblemProps {
  readonly error: unknown;
  readonly retry?: (() => void) | undefined;
}

/** Says what went wrong, why, and what helps. */
export function Problem({ error, retry }: ProblemProps) {
  const { title, detail } = explain(error);
  return (
    <div class="notice tone-bad" role="alert">
      <div class="stack-tight grow">
        <p class="strong">{title}</p>
        {detail !== undefined && <p class="wrap-anywhere">{detail}</p>}
        {retry !== undefined && (
          <div>
            <button type="button" class="button small" onClick={retry}>
              Try again
            </button>
          </div>
        )}
      </div>
    </div>
  );
}

/** Returns an error in words: what happened, and the words of the server. */
function explain(error: unknown): { readonly title: string; readonly detail?: string } {
  if (!(error instanceof RequestFailed)) {
    return { title: 'The console has a defect.', detail: String(error) };
  }
  const { status, message, code, retryAfter, requestId } = error;
  const detail = code === undefined ? message : `${message} (${code})`;
  switch (status) {
    case 0:
      return { title: message };
    case 401:
      return { title: 'Your session has ended.', detail: 'Sign in again to go on.' };
    case 403:
      return { title: 'Your role does not allow this.', detail };
    case 404:
      return { title: 'There is no such thing any more, or there never was.', detail };
    case 429:
      return {
        title: 'Too many requests.',
        detail: `Try again in ${retryAfter ?? 1} s. ${detail}`,
      };
    case 503:
      return { title: 'Leat cannot reach its store at the moment.', detail };
    default:
      return status >= 500
        ? {
            title: `Leat has failed with status ${status}.`,
            detail: `${detail}. Its log has more${requestId === undefined ? '' : `: request ${requestId}`}.`,
          }
        : { title: 'Leat has refused this.', detail };
  }
}

/** Says when data were read, and whether they are read again. */
export function Freshness({ read }: { readonly read: Read<unknown> }) {
  return (
    <span class="meta nowrap">
      {isAway.value || errorOf(read) !== null ? 'Not live' : 'Live'}
      {read.data !== undefined && (
        <>
          , as of <ReadAt read={read} />
        </>
      )}
    </span>
  );
}

/** The time of the last read: that in a body which was not sent again is older. */
function ReadAt({ read }: { readonly read: Read<unknown> }) {
  return <Time at={new Date(now(read.dataUpdatedAt)).toISOString()} />;
}
