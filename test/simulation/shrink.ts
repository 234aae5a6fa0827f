import type { Plan, FaultRates } from './plan.ts';

/** Histories played at most to find a shorter one: some seconds. */
const triesMax = 400;

/**
 * Returns a smaller plan that still fails, without the steps, faults, nodes and streams that the
 * failure does not need. `fails` plays a plan.
 */
export async function shrink(plan: Plan, fails: (plan: Plan) => Promise<boolean>): Promise<Plan> {
  let best = plan;
  let tries = 0;
  const mayTry = (): boolean => tries < triesMax;
  const attempt = async (candidate: Plan): Promise<boolean> => {
    if (!mayTry()) return false;
    tries += 1;
    if (!(await fails(candidate))) return false;
    best = candidate;
    return true;
  };
  for (let before: Plan | undefined; before !== best && mayTry();) {
    before = best;
    await withoutSteps(() => best, attempt);
    for (const name of Object.keys(best.faultRates) as (keyof FaultRates)[]) {
      if (best.faultRates[name] === 0) continue;
      await attempt({ ...best, faultRates: { ...best.faultRates, [name]: 0 } });
    }
    if (best.nodes > 1) await attempt({ ...best, nodes: best.nodes - 1 });
    if (best.streams.length > 1) {
      const { streams, delivery } = best;
      await attempt({ ...best, streams: streams.slice(1), delivery: delivery?.slice(1) });
    }
  }
  return best;
}

/** Leaves out half of the steps, then quarters, and so on down to single ones. */
async function withoutSteps(
  best: () => Plan,
  attempt: (candidate: Plan) => Promise<boolean>,
): Promise<void> {
  for (let size = Math.ceil(best().steps.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let from = 0; from < best().steps.length;) {
      const steps = best().steps.toSpliced(from, size);
      // The next steps have moved to the index of the removed ones.
      if (!(await attempt({ ...best(), steps }))) from += size;
    }
  }
}
