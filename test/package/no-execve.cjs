/* As on Windows, where a process cannot be replaced. */
process.execve = undefined;
