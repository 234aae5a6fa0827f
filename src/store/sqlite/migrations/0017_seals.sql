-- oldest that may run: 0014

-- Changes no table. Programs without this migration open no seal that is bound to its place: once
-- there are such seals, leat_schema refuses these programs.
