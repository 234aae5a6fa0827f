-- oldest that may run: 0014

-- Nothing changes: the number is taken.
