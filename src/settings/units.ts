export const KIB = 1024;
export const MIB = 1024 * KIB;

export const dayMs = 86_400_000;
