/** Believable events of a shop, the same for the same seed. */

export interface EventSource {
  /** Returns an event of a type; `fields` replace those of its object. */
  next(type: string, fields?: object): NewEvent;
  /** Returns so many of them. */
  many(type: string, count: number, fields?: object): NewEvent[];
}

export interface NewEvent {
  readonly type: string;
  readonly data: { readonly object: object };
}

export function createEventSource(seed: number): EventSource {
  const random = createRandom(seed);
  const next: EventSource['next'] = (type, fields = {}) => {
    const make = objects[type.split('.')[0] ?? ''] ?? objects['other'];
    return { type, data: { object: { ...make?.(random), ...fields } } };
  };
  return {
    next,
    many: (type, count, fields) => Array.from({ length: count }, () => next(type, fields)),
  };
}

/** Returns whole numbers from 0 up to `below`: a linear congruential generator (Numerical Recipes). */
type Random = (below: number) => number;

export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const people = [
  ['Ada Lovelace', 'ada@example.com', 'London'],
  ['Zoë Müller-Lüdenscheidt', 'zoe.mueller@example.org', 'Göttingen'],
  ['José Ñúñez', 'jose@example.net', 'A Coruña'],
  ['王小明', 'xiaoming@example.cn', '上海'],
  ['Αλέξανδρος Παπαδόπουλος', 'alexandros@example.gr', 'Αθήνα'],
  ['נועה כהן', 'noa@example.co.il', 'תל אביב'],
  ['Grace Hopper', 'grace@example.com', 'Arlington'],
  ['Łukasz Żółć 👩‍🚀', 'lukasz@example.pl', 'Łódź'],
] as const;
const products = [
  'Espresso cup "Größe M"',
  'Notebook, dotted',
  'Regenschirm',
  '緑茶 100 g',
  'Lámpara',
];
const plans = ['free', 'pro', 'team', 'enterprise'];

const objects: Readonly<Record<string, (random: Random) => object>> = {
  order: (random) => {
    const items = Array.from({ length: 1 + random(4) }, () => ({
      sku: `sku-${1000 + random(9000)}`,
      name: products[random(products.length)],
      quantity: 1 + random(5),
      price: { amount: 199 + random(20_000), currency: 'EUR' },
      options: { gift: random(4) === 0, engraving: null },
    }));
    return {
      order_id: `ord_${hex(random, 12)}`,
      number: 100_000 + random(900_000),
      customer: person(random),
      items,
      total: { amount: 4200 + random(50_000), currency: 'EUR' },
      shipping: {
        carrier: 'dhl',
        address: { city: person(random).city, lines: ['Hauptstraße 1'] },
      },
      tags: ['web', 'spring-sale'].slice(0, 1 + random(2)),
    };
  },
  invoice: (random) => ({
    invoice_id: `inv_${hex(random, 12)}`,
    amount: 100 + random(900_000),
    currency: ['EUR', 'USD', 'JPY'][random(3)],
    due: '2027-01-31',
    lines: [{ text: 'Subscription – January', amount: 4900 }],
  }),
  contact: (random) => ({ contact_id: `con_${hex(random, 12)}`, ...person(random) }),
  product: (random) => ({
    sku: `sku-${1000 + random(9000)}`,
    name: products[random(products.length)],
    description: 'A longer text that search indexes. '.repeat(1 + random(6)).trim(),
    price: { amount: 199 + random(20_000), currency: 'EUR' },
  }),
  stock: (random) => ({
    sku: `sku-${1000 + random(9000)}`,
    warehouse: ['HAM-1', 'MUC-2', 'RTM-1'][random(3)],
    quantity: random(500),
  }),
  parcel: (random) => ({
    parcel_id: `pcl_${hex(random, 10)}`,
    carrier: ['dhl', 'ups', 'post-nl'][random(3)],
    weight_grams: 100 + random(30_000),
  }),
  subscription: (random) => ({
    subscription_id: `sub_${hex(random, 12)}`,
    plan: plans[random(plans.length)],
    customer: person(random),
  }),
  payment: (random) => ({
    payment_id: `pay_${hex(random, 16)}`,
    amount: 100 + random(90_000),
    currency: 'EUR',
    card: { brand: 'visa', last4: String(1000 + random(9000)) },
    risk: { score: random(100) / 100, signals: ['velocity', 'geo'].slice(0, random(3)) },
  }),
  other: (random) => ({ reference: hex(random, 16), note: 'ok' }),
};

function person(random: Random): { name: string; email: string | null; city: string } {
  const [name, email, city] = people[random(people.length)] ?? people[0];
  return { name, email, city };
}

function hex(random: Random, length: number): string {
  return Array.from({ length }, () => random(16).toString(16)).join('');
}
