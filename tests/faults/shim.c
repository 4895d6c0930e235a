/* Preloaded into a program: counts what it does to the files of one folder, and lets the n-th operation fail.
 *
 * It sees what goes through the C library's own functions, as Python's and Rust's files do, and `fwrite`, as
 * NumPy's; what is called past the library (a rename by safetensors), it does not see. Copies inside the
 * kernel are refused, as some file systems do, so that every byte passes through `write`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { NOTHING, KILL, TORN, FULL, ERROR, SHORT, SIGNAL, CLOCK }; /* as in running.py */
enum { GO_ON, FAIL, HALF, HALF_AND_DIE };

static char folder[PATH_MAX];
static int fault, detail, journal = -1;
static long at, count;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* From here on `what` happens at operation `when` below `where`. `with` is the signal. With `log`, each
 * operation that succeeds is written there: "name\tpath\tother path\tplace\tsize\n", and so many bytes. */
void fault_arm(const char *where, int what, long when, int with, const char *log) {
    fault = what, at = when, detail = with, count = 0;
    if (*log) journal = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    strcpy(folder, where);
}

long fault_count(void) { return count; }

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int below(const char *path) {
    size_t length = strlen(folder);
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

/* The whole name of an open file. */
static char *name_of(int file, char *name) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = *folder && file != journal ? readlink(link, name, PATH_MAX - 1) : 0;
    name[length > 0 ? length : 0] = 0;
    return name;
}

/* The whole name of a path that may be relative to the working folder or to an open one. */
static char *whole(int start, const char *path, char *name) {
    *name = 0;
    if (!*folder || !path) return name;
    if (path[0] != '/' && !(start == AT_FDCWD ? getcwd(name, PATH_MAX) : name_of(start, name))) return name;
    size_t length = strlen(name);
    snprintf(name + length, PATH_MAX - length, "%s%s", length ? "/" : "", path);
    return name;
}

/* Count an operation, and say whether it goes on. `size` is that of a write, and -1 where files go. */
static int step(const char *path, ssize_t size) {
    if (!below(path)) return GO_ON;
    long now = __sync_add_and_fetch(&count, 1);
    if (fault == FULL && now >= at && size >= 0) { /* removing needs no space */
        errno = ENOSPC;
        return FAIL;
    }
    if (now != at) return GO_ON;
    if (fault == TORN && size > 0) return HALF_AND_DIE;
    if (fault == KILL || fault == TORN) die();
    if (fault == SIGNAL) kill(getpid(), detail);
    if (fault == ERROR) {
        errno = EIO;
        return FAIL;
    }
    return fault == SHORT && size > 1 ? HALF : GO_ON;
}

static void note(const char *name, const char *path, const char *other, long place, const void *data,
                 size_t size) {
    if (journal < 0 || !below(path) || strstr(path, " (deleted)")) return;
    char line[2 * PATH_MAX + 99];
    int length = snprintf(line, sizeof line, "%s\t%s\t%s\t%ld\t%zu\n", name, path, other, place, size);
    /* In one call, which nothing that another thread or process appends comes into. */
    struct iovec parts[] = {{line, length}, {(void *)data, size}};
    if (REAL(writev)(journal, parts, 2) != length + (ssize_t)size) abort();
}

/* Note a file that came from elsewhere as one that was written here. */
static void note_whole(const char *path) {
    struct stat now;
    int file = below(path) ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    char *data = fstat(file, &now) ? NULL : malloc(now.st_size + 1);
    ssize_t size = data ? read(file, data, now.st_size) : -1;
    close(file);
    note("file", path, "", 0, NULL, 0);
    note("truncate", path, "", 0, NULL, 0);
    if (size > 0) note("write", path, "", 0, data, size);
    free(data);
}

static ssize_t put(int file, const void *data, size_t size, off_t place) {
    char name[PATH_MAX];
    struct stat now;
    off_t real = place;
    if (below(name_of(file, name))) {
        int then = step(name, size);
        if (then == FAIL) return -1;
        if (then == HALF || then == HALF_AND_DIE) size /= 2;
        if (place < 0) place = lseek(file, 0, SEEK_CUR);
        if (fcntl(file, F_GETFL) & O_APPEND && !fstat(file, &now)) place = now.st_size;
        ssize_t done = real < 0 ? REAL(write)(file, data, size) : REAL(pwrite)(file, data, size, real);
        if (then == HALF_AND_DIE) die();
        if (done > 0) note("write", name, "", place, data, done);
        return done;
    }
    return real < 0 ? REAL(write)(file, data, size) : REAL(pwrite)(file, data, size, real);
}

ssize_t write(int file, const void *data, size_t size) { return put(file, data, size, -1); }
ssize_t pwrite(int file, const void *data, size_t size, off_t place) { return put(file, data, size, place); }
ssize_t pwrite64(int file, const void *data, size_t size, off_t place) { return put(file, data, size, place); }
ssize_t writev(int file, const struct iovec *parts, int many) {
    char name[PATH_MAX];
    if (!below(name_of(file, name))) return REAL(writev)(file, parts, many);
    while (many > 1 && !parts->iov_len) parts++, many--;
    return put(file, parts->iov_base, parts->iov_len, -1); /* may write less than it was asked to */
}
ssize_t sendfile(int to, int from, off_t *place, size_t size) {
    (void)to, (void)from, (void)place, (void)size;
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile64(int to, int from, off_t *place, size_t size) { return sendfile(to, from, place, size); }
ssize_t copy_file_range(int from, off_t *x, int to, off_t *y, size_t size, unsigned flags) {
    (void)x, (void)y, (void)flags;
    return sendfile(to, from, NULL, size);
}

size_t fwrite(const void *data, size_t size, size_t many, FILE *file) {
    char name[PATH_MAX];
    if (!size || !many || !below(name_of(fileno(file), name))) return REAL(fwrite)(data, size, many, file);
    int then = step(name, size * many);
    if (then == FAIL) return 0;
    if (then == HALF_AND_DIE) {
        REAL(fwrite)(data, 1, size * many / 2, file);
        fflush(file);
        die();
    }
    long place = ftell(file);
    size_t done = REAL(fwrite)(data, size, many, file);
    note("write", name, "", place, data, done * size);
    return done;
}

#define ON_FILE(NAME, PARAMETERS, ARGUMENTS, SAID, SIZE)         \
    int NAME PARAMETERS {                                        \
        char name[PATH_MAX];                                     \
        if (step(name_of(file, name), 0) == FAIL) return -1;     \
        int ended = REAL(NAME) ARGUMENTS;                        \
        if (!ended) note(SAID, name, "", SIZE, NULL, 0);         \
        return ended;                                            \
    }
ON_FILE(fsync, (int file), (file), "sync", 0)
ON_FILE(fdatasync, (int file), (file), "sync", 0)
ON_FILE(ftruncate, (int file, off_t size), (file, size), "truncate", size)
ON_FILE(ftruncate64, (int file, off_t size), (file, size), "truncate", size)

#define ON_NAME(NAME, PARAMETERS, ARGUMENTS, SAID, START, PATH)                   \
    int NAME PARAMETERS {                                                         \
        char name[PATH_MAX];                                                      \
        if (step(whole(START, PATH, name), *SAID == 'r' ? -1 : 0) == FAIL) return -1; \
        int ended = REAL(NAME) ARGUMENTS;                                         \
        if (!ended) note(SAID, name, "", 0, NULL, 0);                             \
        return ended;                                                             \
    }
ON_NAME(unlink, (const char *a), (a), "remove", AT_FDCWD, a)
ON_NAME(unlinkat, (int x, const char *a, int flags), (x, a, flags), "remove", x, a)
ON_NAME(rmdir, (const char *a), (a), "remove", AT_FDCWD, a)
ON_NAME(mkdir, (const char *a, mode_t mode), (a, mode), "folder", AT_FDCWD, a)
ON_NAME(mkdirat, (int x, const char *a, mode_t mode), (x, a, mode), "folder", x, a)

#define ON_TWO(NAME, PARAMETERS, ARGUMENTS, SAID, X, Y)                           \
    int NAME PARAMETERS {                                                         \
        char name[PATH_MAX], other[PATH_MAX];                                     \
        int inside = below(whole(X, a, name));                                    \
        /* Swapping two names, like removing one, needs no space. */              \
        if (step(whole(Y, b, other), *(SAID) == 'e' ? -1 : 0) == FAIL) return -1; \
        int ended = REAL(NAME) ARGUMENTS;                                         \
        if (!ended && inside) note(SAID, name, other, 0, NULL, 0);                \
        if (!ended && !inside) note_whole(other);                                 \
        return ended;                                                             \
    }
ON_TWO(rename, (const char *a, const char *b), (a, b), "rename", AT_FDCWD, AT_FDCWD)
ON_TWO(renameat, (int x, const char *a, int y, const char *b), (x, a, y, b), "rename", x, y)
ON_TWO(renameat2, (int x, const char *a, int y, const char *b, unsigned flags), (x, a, y, b, flags),
       flags & RENAME_EXCHANGE ? "exchange" : "rename", x, y)
ON_TWO(link, (const char *a, const char *b), (a, b), "link", AT_FDCWD, AT_FDCWD)
ON_TWO(linkat, (int x, const char *a, int y, const char *b, int flags), (x, a, y, b, flags), "link", x, y)

#define OPENING(NAME, PARAMETERS, START, ARGUMENTS)                               \
    int NAME PARAMETERS {                                                         \
        char name[PATH_MAX];                                                      \
        va_list more;                                                             \
        va_start(more, flags);                                                    \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;   \
        va_end(more);                                                             \
        int writes = flags & (O_CREAT | O_TRUNC);                                 \
        if (writes && step(whole(START, path, name), 0) == FAIL) return -1;       \
        int file = REAL(NAME) ARGUMENTS;                                          \
        if (file >= 0 && flags & O_CREAT) note("file", name, "", 0, NULL, 0);     \
        if (file >= 0 && flags & O_TRUNC) note("truncate", name, "", 0, NULL, 0); \
        return file;                                                              \
    }
OPENING(open, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENING(open64, (const char *path, int flags, ...), AT_FDCWD, (path, flags, mode))
OPENING(openat, (int start, const char *path, int flags, ...), start, (start, path, flags, mode))
OPENING(openat64, (int start, const char *path, int flags, ...), start, (start, path, flags, mode))

#define STDIO(NAME)                                                               \
    FILE *NAME(const char *path, const char *how) {                               \
        char name[PATH_MAX];                                                      \
        int writes = *how != 'r';                                                 \
        if (writes && step(whole(AT_FDCWD, path, name), 0) == FAIL) return NULL;  \
        FILE *file = REAL(NAME)(path, how);                                       \
        if (file && writes) note("file", name, "", 0, NULL, 0);                   \
        if (file && *how == 'w') note("truncate", name, "", 0, NULL, 0);          \
        return file;                                                              \
    }
STDIO(fopen)
STDIO(fopen64)

int clock_gettime(clockid_t which, struct timespec *now) {
    int ended = REAL(clock_gettime)(which, now);
    if (which == CLOCK_REALTIME && fault == CLOCK && count >= at) now->tv_sec -= 86400;
    return ended;
}
