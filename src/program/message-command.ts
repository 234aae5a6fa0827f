/**
 * The hidden command of the second process of `leat start`. Alone in its file: a service without a
 * second process does not load what starts one.
 */
export const messageProcessCommand = 'messages-companion';
