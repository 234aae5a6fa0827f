import type { FailureSelection } from '../port/failures.ts';
import { Fragment, jsonOf, piece } from './dialect.ts';

/** Returns the condition on the columns of `deliveries d` that selects open failures. */
export function selects(selection: FailureSelection): Fragment {
  const { types, from, to, eventIds, failedFrom, failedTo, codes } = selection;
  const [anyType, anyId, anyCode] = [types, eventIds, codes].map((list) => list === undefined);
  const earliest = { time: from ?? lowest, failed: failedFrom ?? lowest };
  const latest = { time: to ?? highest, failed: failedTo ?? highest };
  const lists = [types ?? [], eventIds ?? [], codes ?? [], classesOf(codes)] as const;
  const [typesJson, idsJson, codesJson, classesJson] = lists.map(jsonOf);
  return new Fragment({
    sqlite: piece`
      d.time >= ${earliest.time} and d.time < ${latest.time}
      -- With the sign SQLite does not take the index of all streams for the failures of one.
      and +d.listed_at >= ${earliest.failed} and +d.listed_at < ${latest.failed}
      and (${anyType} or d.type in (select value from json_each(${typesJson})))
      and (${anyId} or d.event_id in (select value from json_each(${idsJson})))
      and (${anyCode} or d.error_code in (select value from json_each(${codesJson}))
        or substr(d.error_code, 1, 6) in (select value from json_each(${classesJson})))`,
    postgres: piece`
      d.time >= ${earliest.time} and d.time < ${latest.time}
      and d.listed_at >= ${earliest.failed} and d.listed_at < ${latest.failed}
      and (${anyType} or d.type = any(${lists[0]}::text[]))
      and (${anyId} or d.event_id = any(${lists[1]}::text[]))
      and (${anyCode} or d.error_code = any(${lists[2]}::text[])
        or substr(d.error_code, 1, 6) = any(${lists[3]}::text[]))`,
  });
}

/** Returns the condition on the column of `failure_groups d` that selects error codes. */
export function hasCode(codes: FailureSelection['codes']): Fragment {
  const [isAny, lists] = [codes === undefined, [codes ?? [], classesOf(codes)] as const];
  const [codesJson, classesJson] = lists.map(jsonOf);
  return new Fragment({
    sqlite: piece`
      (${isAny} or d.error_code in (select value from json_each(${codesJson}))
        or substr(d.error_code, 1, 6) in (select value from json_each(${classesJson})))`,
    postgres: piece`
      (${isAny} or d.error_code = any(${lists[0]}::text[])
        or substr(d.error_code, 1, 6) = any(${lists[1]}::text[]))`,
  });
}

/** Returns the beginnings of the codes of classes: `http_4` for `http_4xx`. */
function classesOf(codes: FailureSelection['codes']): string[] {
  return codes?.flatMap((code) => /^(http_[45])xx$/.exec(code)?.[1] ?? []) ?? [];
}

const lowest = Number.MIN_SAFE_INTEGER;
const highest = Number.MAX_SAFE_INTEGER;
