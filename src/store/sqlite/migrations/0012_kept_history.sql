-- Entries of the history that were put aside have numbers of their own, below those of `attempts`,
-- which are given out again once that table is empty.
update attempts_kept set number = number - 4503599627370496;
