/*
 * Preloaded by LD_PRELOAD: makes the disk slow, failing or full for the files of one process. The file that
 * LEAT_SLOW_DISK names says how, and is read again at each call, so that a test changes it while the process
 * runs:
 *
 *   path=leat.db        part of the paths concerned; all regular files without it
 *   sync_delay_ms=200   fsync and fdatasync take so much longer, and end when the file says less
 *   sync_after=100      the first calls that are neither delayed nor fail, counted from the start of the process
 *   sync_errno=5        fsync and fdatasync fail with this error (5 is EIO), after the delay
 *   write_errno=28      writes, and what makes a file longer, fail with this error (28 is ENOSPC)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct faults {
  char path[256];
  long sync_delay_ms;
  long sync_after;
  int sync_errno;
  int write_errno;
};

static atomic_long syncs;

/* By system calls alone: the functions of the library may be those below. */
static int read_faults(struct faults *faults) {
  const char *name = getenv("LEAT_SLOW_DISK");
  char text[1024];
  memset(faults, 0, sizeof *faults);
  if (name == NULL) return 0;
  int file = (int)syscall(SYS_openat, AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return 0;
  long length = syscall(SYS_read, file, text, sizeof text - 1);
  syscall(SYS_close, file);
  if (length <= 0) return 0;
  text[length] = '\0';
  char *rest;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    char *value = strchr(line, '=');
    if (value == NULL) continue;
    *value++ = '\0';
    if (strcmp(line, "path") == 0) snprintf(faults->path, sizeof faults->path, "%s", value);
    if (strcmp(line, "sync_delay_ms") == 0) faults->sync_delay_ms = atol(value);
    if (strcmp(line, "sync_after") == 0) faults->sync_after = atol(value);
    if (strcmp(line, "sync_errno") == 0) faults->sync_errno = atoi(value);
    if (strcmp(line, "write_errno") == 0) faults->write_errno = atoi(value);
  }
  return 1;
}

static int concerns(const struct faults *faults, int file) {
  char link[64], target[4096];
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, target, sizeof target - 1);
  if (length < 0) return 0;
  target[length] = '\0';
  return strstr(target, faults->path) != NULL;
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Returns the error that the sync of a file ends with; 0 for none. */
static int sync_fault(int file) {
  struct faults faults;
  if (!read_faults(&faults) || !concerns(&faults, file)) return 0;
  if (atomic_fetch_add(&syncs, 1) < faults.sync_after) return 0;
  const long begun_ms = now_ms();
  const struct timespec slice = {0, 5000000};
  while (now_ms() - begun_ms < faults.sync_delay_ms) {
    nanosleep(&slice, NULL);
    if (!read_faults(&faults)) return 0;
  }
  return faults.sync_errno;
}

static int write_fault(int file) {
  struct faults faults;
  if (!read_faults(&faults) || faults.write_errno == 0) return 0;
  return concerns(&faults, file) ? faults.write_errno : 0;
}

#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

#define SYNC(name)                         \
  int name(int file) {                     \
    int fault = sync_fault(file);          \
    if (fault == 0) return NEXT(name)(file); \
    errno = fault;                         \
    return -1;                             \
  }

#define WRITE(type, name, parameters, arguments)  \
  type name parameters {                          \
    int fault = write_fault(file);                \
    if (fault == 0) return NEXT(name) arguments;  \
    errno = fault;                                \
    return -1;                                    \
  }

SYNC(fsync)
SYNC(fdatasync)
WRITE(ssize_t, write, (int file, const void *bytes, size_t size), (file, bytes, size))
WRITE(ssize_t, pwrite, (int file, const void *bytes, size_t size, off_t at), (file, bytes, size, at))
WRITE(ssize_t, pwrite64, (int file, const void *bytes, size_t size, off64_t at), (file, bytes, size, at))
WRITE(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
WRITE(ssize_t, pwritev, (int file, const struct iovec *parts, int count, off_t at), (file, parts, count, at))
WRITE(ssize_t, pwritev64, (int file, const struct iovec *parts, int count, off64_t at), (file, parts, count, at))
WRITE(int, ftruncate64, (int file, off64_t size), (file, size))
WRITE(int, ftruncate, (int file, off_t size), (file, size))
WRITE(int, posix_fallocate, (int file, off_t at, off_t size), (file, at, size))
