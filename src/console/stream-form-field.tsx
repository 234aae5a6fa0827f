import type { ComponentChildren, InputHTMLAttributes } from 'preact';
import { useId } from 'preact/hooks';
import type { StreamDraft } from './stream-draft.ts';
import type { Problems } from './stream-patch.ts';

/** What each part of the form gets. */
export interface FormProps {
  readonly draft: StreamDraft;
  readonly set: (changes: Partial<StreamDraft>) => void;
  readonly problems: Problems;
}

/** What ties a control to its hint and its problem. */
export interface Described {
  readonly 'aria-describedby'?: string;
  readonly 'aria-invalid'?: 'true';
}

interface FieldProps {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly problem?: string | undefined;
  readonly children: (described: Described & { readonly id: string }) => ComponentChildren;
}

/** A control with its label, what it means, and what is wrong with it. */
export function Field({ label, hint, problem, children }: FieldProps) {
  const id = useId();
  const texts = [
    ...(problem === undefined ? [] : [`${id}-problem`]),
    ...(hint === undefined ? [] : [`${id}-hint`]),
  ];
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({
        id,
        ...(texts.length === 0 ? {} : { 'aria-describedby': texts.join(' ') }),
        ...(problem === undefined ? {} : { 'aria-invalid': 'true' as const }),
      })}
      <ProblemText id={`${id}-problem`} problem={problem} />
      {hint !== undefined && (
        <span class="hint" id={`${id}-hint`}>
          {hint}
        </span>
      )}
    </div>
  );
}

export function ProblemText({
  id,
  problem,
}: {
  readonly id?: string;
  readonly problem: string | undefined;
}) {
  if (problem === undefined) return null;
  return (
    <span class="problem" {...(id === undefined ? {} : { id })}>
      {problem}
    </span>
  );
}

type TextProps = Omit<FieldProps, 'children'> & {
  readonly value: string;
  readonly onText: (value: string) => void;
  readonly input?: InputHTMLAttributes;
};

/** A field of one line. */
export function TextField({ value, onText, input, ...field }: TextProps) {
  return (
    <Field {...field}>
      {(described) => (
        <input
          {...described}
          value={value}
          spellcheck={false}
          autocomplete="off"
          {...input}
          onInput={({ currentTarget }) => onText(currentTarget.value)}
        />
      )}
    </Field>
  );
}

type ChoiceProps<T extends string> = Omit<FieldProps, 'children'> & {
  readonly value: T;
  readonly choices: Readonly<Record<T, string>>;
  readonly onChoice: (value: T) => void;
};

/** A field with few values. */
export function ChoiceField<T extends string>({
  value,
  choices,
  onChoice,
  ...field
}: ChoiceProps<T>) {
  return (
    <Field {...field}>
      {(described) => (
        <select
          {...described}
          value={value}
          onChange={({ currentTarget }) => onChoice(currentTarget.value as T)}
        >
          {(Object.entries(choices) as [T, string][]).map(([name, text]) => (
            <option key={name} value={name}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** Moves the focus from a button that removes its item to the control that adds one. */
export function focusAdding({ currentTarget }: { readonly currentTarget: EventTarget }): void {
  if (!(currentTarget instanceof Element)) return;
  currentTarget.closest('[data-items]')?.querySelector<HTMLElement>('[data-adds]')?.focus();
}
