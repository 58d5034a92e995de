/* Preloaded (LD_PRELOAD): CLOCK_REALTIME is off by the seconds that the file named by RINGFENCE_TEST_CLOCK holds, as an
   8-byte double. All processes that map the file see a new value at once, as they see a step of the machine's clock. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile double *shift;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("RINGFENCE_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(double), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (found != MAP_FAILED) shift = found;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += (time_t)*shift;
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &found)) return -1;
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (into) *into = found.tv_sec;
    return found.tv_sec;
}

/* Waits until a time of day (librdkafka's, the JVM's) end when the shifted clock says so: at once after a step forward,
   and later by as much after a step back. The kernel knows only the real clock, so they are waits of short slices. */
#include <errno.h>
#include <pthread.h>
#include <threads.h>

#define SLICE_NS 100000000L

typedef int (*wait_t)(void *, void *, const struct timespec *);

static int is_time_of_day(const struct timespec *until) {
    return until->tv_sec > 1000000000; /* a condition with CLOCK_MONOTONIC is given far less */
}

static int wait_in_slices(wait_t wait, void *condition, void *mutex, const struct timespec *until, int timed_out) {
    for (;;) {
        struct timespec now, slice;
        clock_gettime(CLOCK_REALTIME, &now);
        long left_s = until->tv_sec - now.tv_sec, left_ns = until->tv_nsec - now.tv_nsec;
        if (left_s < 0 || (left_s == 0 && left_ns <= 0)) return timed_out;
        long ns = left_s > 1 || left_s * 1000000000L + left_ns > SLICE_NS ? SLICE_NS : left_s * 1000000000L + left_ns;
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &slice);
        slice.tv_nsec += ns;
        if (slice.tv_nsec >= 1000000000L) { slice.tv_sec++; slice.tv_nsec -= 1000000000L; }
        int result = wait(condition, mutex, &slice);
        if (result != timed_out) return result;
    }
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    static wait_t real;
    if (!real) real = (wait_t)dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!shift || !is_time_of_day(until)) return real(condition, mutex, until);
    return wait_in_slices(real, condition, mutex, until, ETIMEDOUT);
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    static wait_t real;
    if (!real) real = (wait_t)dlsym(RTLD_NEXT, "cnd_timedwait");
    if (!shift || !is_time_of_day(until)) return real(condition, mutex, until);
    return wait_in_slices(real, condition, mutex, until, thrd_timedout);
}
