export const KIB = 1024;
export const MIB = 1024 * KIB;

export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;
