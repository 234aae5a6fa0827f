/** Removes the items of a list, each once `take` has resolved for it. */
export async function drain<T>(items: T[], take: (item: T) => Promise<void>): Promise<void> {
  for (let item = items[0]; item !== undefined; item = items[0]) {
    await take(item);
    items.shift();
  }
}
