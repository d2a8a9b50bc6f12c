/* Counts the calls that change files, and at one of them kills the process or lets the call fail.
 *
 * Interposed with LD_PRELOAD, armed from Python through ctypes. Calls on what is neither a regular
 * file nor a folder (pipes, terminals) are not counted. Syncing is counted, not done: it takes long,
 * and a process that dies loses nothing by it. Instead it is noted which files were written and not
 * synced since, and how often a name was given while there were any.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, KILL, TORN, TERM, EIO_ONCE, ENOSPC_ONCE, EIO_EVER, ENOSPC_EVER };

static atomic_long seen;
static long goal = -1;
static int action = NOTHING;


/* Returns the error to fail with; 0 to go on; -1 to do half of it and die. */
static int fault(void) {
    long at = atomic_fetch_add(&seen, 1);
    int ever = action == EIO_EVER || action == ENOSPC_EVER;
    if (goal < 0 || !(at == goal || (ever && at > goal))) return 0;
    switch (action) {
        case KILL: kill(getpid(), SIGKILL); pause(); return 0;
        case TORN: return -1;
        case TERM: kill(getpid(), SIGTERM); return 0;
        case EIO_ONCE: case EIO_EVER: return EIO;
        case ENOSPC_ONCE: case ENOSPC_EVER: return ENOSPC;
    }
    return 0;
}

static int on_file(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { dev_t device; ino_t number; } dirty[256];
static int dirty_count, early;

/* Note that the file has been written, or synced. */
static void touched(int fd, int synced) {
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) return;
    pthread_mutex_lock(&lock);
    int at = 0;
    while (at < dirty_count &&
           (dirty[at].device != status.st_dev || dirty[at].number != status.st_ino))
        at++;
    if (synced && at < dirty_count) dirty[at] = dirty[--dirty_count];
    if (!synced && at == dirty_count && at < 256) {
        dirty[at].device = status.st_dev;
        dirty[at].number = status.st_ino;
        dirty_count++;
    }
    pthread_mutex_unlock(&lock);
}

/* Note that a name is given. */
static int named(void) {
    early += dirty_count > 0;
    return 1;
}

void faults_arm(long at, int what) {
    goal = at;
    action = what;
    atomic_store(&seen, 0);
    dirty_count = early = 0;
}

/* Return how often a name was given while a file had bytes that were not synced. */
int faults_early(void) { return early; }

long faults_disarm(void) { goal = -1; action = NOTHING; return atomic_exchange(&seen, 0); }

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define FAIL_IF(counted) \
    int bad = (counted) ? fault() : 0; \
    if (bad > 0) { errno = bad; return -1; }
#define DIE_IF_TORN if (bad < 0) { kill(getpid(), SIGKILL); pause(); }

#define PLAIN(type, name, parameters, arguments, counted) \
    type name parameters { \
        NEXT(name); \
        FAIL_IF(counted) \
        DIE_IF_TORN \
        return next arguments; \
    }

/* A write that is torn does half of its bytes. */
#define WRITES(name, parameters, full, half) \
    ssize_t name parameters { \
        NEXT(name); \
        FAIL_IF(on_file(fd)) \
        if (bad < 0) { if (next half < 0) {} DIE_IF_TORN } \
        touched(fd, 0); \
        return next full; \
    }

#define SYNCS(name) \
    int name(int fd) { \
        FAIL_IF(1) \
        DIE_IF_TORN \
        touched(fd, 1); \
        return 0; \
    }

WRITES(write, (int fd, const void *data, size_t size), (fd, data, size), (fd, data, size / 2))
WRITES(pwrite, (int fd, const void *data, size_t size, off_t at),
       (fd, data, size, at), (fd, data, size / 2, at))
WRITES(pwrite64, (int fd, const void *data, size_t size, off64_t at),
       (fd, data, size, at), (fd, data, size / 2, at))
WRITES(writev, (int fd, const struct iovec *data, int count),
       (fd, data, count), (fd, data, count / 2))
WRITES(pwritev, (int fd, const struct iovec *data, int count, off_t at),
       (fd, data, count, at), (fd, data, count / 2, at))
WRITES(pwritev64, (int fd, const struct iovec *data, int count, off64_t at),
       (fd, data, count, at), (fd, data, count / 2, at))

PLAIN(int, ftruncate, (int fd, off_t size), (fd, size), on_file(fd))
PLAIN(int, ftruncate64, (int fd, off64_t size), (fd, size), on_file(fd))
PLAIN(int, fallocate, (int fd, int how, off_t at, off_t size), (fd, how, at, size), 1)
PLAIN(int, fallocate64, (int fd, int how, off64_t at, off64_t size), (fd, how, at, size), 1)
SYNCS(fsync)
SYNCS(fdatasync)
PLAIN(int, rename, (const char *a, const char *b), (a, b), named())
PLAIN(int, renameat, (int f, const char *a, int g, const char *b), (f, a, g, b), named())
PLAIN(int, renameat2, (int f, const char *a, int g, const char *b, unsigned how),
      (f, a, g, b, how), named())
PLAIN(int, link, (const char *a, const char *b), (a, b), named())
PLAIN(int, linkat, (int f, const char *a, int g, const char *b, int how), (f, a, g, b, how), named())
PLAIN(int, symlink, (const char *a, const char *b), (a, b), 1)
PLAIN(int, unlink, (const char *a), (a), 1)
PLAIN(int, unlinkat, (int f, const char *a, int how), (f, a, how), 1)
PLAIN(int, mkdir, (const char *a, mode_t mode), (a, mode), 1)
PLAIN(int, mkdirat, (int f, const char *a, mode_t mode), (f, a, mode), 1)
PLAIN(int, rmdir, (const char *a), (a), 1)
PLAIN(int, chmod, (const char *a, mode_t mode), (a, mode), 1)
PLAIN(int, fchmod, (int fd, mode_t mode), (fd, mode), 1)
PLAIN(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), 1)

#define CREATES (how & O_CREAT || (how & O_TMPFILE) == O_TMPFILE)
#define MODE \
    mode_t mode = 0; \
    if (CREATES) { \
        va_list rest; \
        va_start(rest, how); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }
#define OPENS(name) \
    int name(const char *path, int how, ...) { \
        NEXT(name); \
        MODE FAIL_IF(CREATES) DIE_IF_TORN \
        return next(path, how, mode); \
    }
#define OPENS_AT(name) \
    int name(int folder, const char *path, int how, ...) { \
        NEXT(name); \
        MODE FAIL_IF(CREATES) DIE_IF_TORN \
        return next(folder, path, how, mode); \
    }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
