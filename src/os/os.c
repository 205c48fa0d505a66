#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define OS_PAGE      4096u
#define HELPER_STACK ((size_t)1 << 20)
#define SPIN_YIELDS  16u    /* of a spin; then it sleeps */
#define SPIN_NS      50000u /* as long as this at first, doubled so often after each 16 sleeps */
#define SPIN_DOUBLED 5u

static size_t os_round(size_t bytes)
{
	return (bytes + OS_PAGE - 1) & ~(size_t)(OS_PAGE - 1);
}

uint64_t roami_os_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int roami_os_poll_ms(uint64_t until_ns)
{
	uint64_t now = roami_os_now_ns(), ms;

	if (until_ns == UINT64_MAX)
		return -1;
	ms = now < until_ns ? (until_ns - now - 1) / 1000000 + 1 : 0;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

uint64_t roami_os_ran_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int roami_os_tasks(void)
{
	return roami_os_fd(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

unsigned roami_os_threads_of(int tasks)
{
	struct stat stat;

	/* The directory's name and its "." are links, too. */
	return fstat(tasks, &stat) == 0 && stat.st_nlink > 2 ? (unsigned)stat.st_nlink - 2 : 0;
}

unsigned roami_os_threads(void)
{
	int tasks = roami_os_tasks();
	unsigned threads = 0;

	if (tasks < 0)
		return 0;
	threads = roami_os_threads_of(tasks);
	close(tasks);
	return threads;
}

uint64_t roami_os_sleeps(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_nvcsw;
}

void *roami_os_reserve(size_t bytes)
{
	void *at = mmap(NULL, os_round(bytes), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

void *roami_os_reserve_sparse(size_t bytes)
{
	void *at = roami_os_reserve(bytes);

	if (at != NULL)
		roami_os_dontdump(at, bytes);
	return at;
}

void *roami_os_map_fd(void *at, size_t bytes, int fd, uint64_t offset)
{
	size_t size = os_round(bytes), before;
	uint8_t *room;
	void *got;

	if (at != NULL) {
		got = mmap(at, size, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, (off_t)offset);
		if (got != at && got != MAP_FAILED) {
			munmap(got, size);
			errno = EEXIST;
			return NULL;
		}
		return got == MAP_FAILED ? NULL : got;
	}
	/*
	 * Guard pages on both sides, and a random distance: a wild store must not reach another
	 * node.
	 */
	room = mmap(NULL, size + 2 * OS_PAGE + 64 * OS_PAGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		return NULL;
	got = room + OS_PAGE + (roami_os_random() % 64) * OS_PAGE;
	got = mmap(got, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
		   (off_t)offset);
	if (got == MAP_FAILED) {
		munmap(room, size + 66 * OS_PAGE);
		return NULL;
	}
	/* What lies beyond the guard pages would not be found any more. */
	before = (size_t)((uint8_t *)got - room) - OS_PAGE;
	if (before > 0)
		munmap(room, before);
	if (before < 64 * OS_PAGE)
		munmap((uint8_t *)got + size + OS_PAGE, 64 * OS_PAGE - before);
	return got;
}

void roami_os_unmap_fd(void *at, size_t bytes)
{
	if (at != NULL)
		munmap((uint8_t *)at - OS_PAGE, os_round(bytes) + 2 * OS_PAGE);
}

void roami_os_unmap(void *at, size_t bytes)
{
	if (at != NULL)
		munmap(at, os_round(bytes));
}

void roami_os_dontfork(void *at, size_t bytes)
{
	madvise(at, os_round(bytes), MADV_DONTFORK);
}

void roami_os_dontdump(void *at, size_t bytes)
{
	madvise(at, os_round(bytes), MADV_DONTDUMP);
}

void roami_os_dump(void *at, size_t bytes)
{
	int saved = errno;

	madvise(at, os_round(bytes), MADV_DODUMP);
	errno = saved;
}

/* The kernel refuses locked memory, of a program that has called mlockall. */
void roami_os_forget(void *at, size_t bytes)
{
	if (madvise(at, bytes, MADV_DONTNEED) != 0)
		madvise(at, bytes, MADV_DONTNEED_LOCKED);
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* A range of nothing but holes is none that could be made of huge pages: hence one page of each. */
bool roami_os_huge_make(void *at, size_t bytes)
{
	int saved = errno;
	bool made = true;

	for (size_t i = 0; i < bytes && made; i += ROAMI_OS_HUGE)
		made = madvise((uint8_t *)at + i, OS_PAGE, MADV_POPULATE_WRITE) == 0;
	if (made && madvise(at, bytes, MADV_COLLAPSE) != 0)
		made = errno == EAGAIN || errno == EBUSY || errno == ENOMEM;
	errno = saved;
	return made;
}

/*
 * The kernel refuses locked memory, which is therefore unlocked for the moment, and locked again as
 * it is touched.
 */
void roami_os_discard(void *at, size_t bytes)
{
	if (madvise(at, bytes, MADV_REMOVE) == 0 || errno != EINVAL || munlock(at, bytes) != 0)
		return;
	madvise(at, bytes, MADV_REMOVE);
	mlock2(at, bytes, MLOCK_ONFAULT);
}

/* Holds for memfds, too; beyond the limit a write is a signal, SIGXFSZ, which ends the process. */
bool roami_os_writes_to(uint64_t end)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || end <= limit.rlim_cur;
}

size_t roami_os_write_at(int fd, uint64_t offset, const void *data, size_t bytes)
{
	ssize_t done;

	if (!roami_os_writes_to(offset + bytes))
		return 0;
	do
		done = pwrite(fd, data, bytes, (off_t)offset);
	while (done < 0 && errno == EINTR);
	return done > 0 ? (size_t)done : 0;
}

bool roami_os_data(int fd, uint64_t *at_p, uint64_t end, uint64_t *first_p)
{
	off_t data = *at_p < end ? lseek(fd, (off_t)*at_p, SEEK_DATA) : -1, hole;

	if (data < 0 || (uint64_t)data >= end)
		return false;
	hole = lseek(fd, data, SEEK_HOLE);
	*first_p = (uint64_t)data;
	*at_p = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
	return true;
}

/* A limit of file sizes is an error, EFBIG, and does not end the process by a signal. */
static int os_truncate(int fd, uint64_t bytes)
{
	const struct timespec now = {0, 0};
	sigset_t limit, before;
	int result, saved;

	sigemptyset(&limit);
	sigaddset(&limit, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &limit, &before);
	result = ftruncate(fd, (off_t)bytes);
	saved = errno;
	if (result != 0 && saved == EFBIG && !sigismember(&before, SIGXFSZ))
		sigtimedwait(&limit, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = saved;
	return result;
}

int roami_os_memfd(const char *name, uint64_t bytes)
{
	int fd = roami_os_fd((int)syscall(SYS_memfd_create, name,
					  1u /* MFD_CLOEXEC */ | 2u /* MFD_ALLOW_SEALING */));

	if (fd < 0)
		return -1;
	if (os_truncate(fd, bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

#if defined(__SANITIZE_THREAD__)
#define OS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OS_TSAN 1
#endif
#endif

/* Moves a mapping of `from` bytes to one of `to`, more; MAP_FAILED: no memory. */
static void *os_grow(void *at, size_t from, size_t to)
{
#ifdef OS_TSAN
	/* ThreadSanitizer does not see mremap: old accesses at the new place would count. */
	void *next = mmap(NULL, to, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (next != MAP_FAILED) {
		memcpy(next, at, from);
		munmap(at, from);
	}
	return next;
#else
	return mremap(at, from, to, MREMAP_MAYMOVE);
#endif
}

void *roami_os_vec_grow(struct roami_vec *vec, size_t item_bytes, size_t count)
{
	size_t need = vec->count + count;
	size_t capacity = vec->capacity ? vec->capacity : OS_PAGE / item_bytes + 1;
	void *at;

	if (need <= vec->capacity)
		return vec->items + vec->count * item_bytes;
	while (capacity < need)
		capacity *= 2;
	if (vec->items == NULL)
		at = mmap(NULL, os_round(capacity * item_bytes), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else
		at = os_grow(vec->items, os_round(vec->capacity * item_bytes),
			     os_round(capacity * item_bytes));
	if (at == MAP_FAILED)
		return NULL;
	vec->items = at;
	vec->capacity = capacity;
	return vec->items + vec->count * item_bytes;
}

void roami_os_vec_free(struct roami_vec *vec, size_t item_bytes)
{
	if (vec->items != NULL)
		munmap(vec->items, os_round(vec->capacity * item_bytes));
	*vec = (struct roami_vec){0};
}

void roami_os_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
	struct timespec ts = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT, value, timeout_ns ? &ts : NULL, NULL, 0);
	errno = saved;
}

void roami_os_futex_wake(_Atomic uint32_t *word, int count)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
	errno = saved;
}

void roami_os_spin(unsigned turn)
{
	unsigned round = turn / ROAMI_OS_SPIN_PAUSES;

	if ((turn + 1) % ROAMI_OS_SPIN_PAUSES != 0) {
		roami_os_pause();
	} else if (round < SPIN_YIELDS) {
		sched_yield();
	} else {
		unsigned doubled = (round - SPIN_YIELDS) / SPIN_YIELDS;
		_Atomic uint32_t word = 0;

		roami_os_futex_wait(&word, 0,
				    SPIN_NS << (doubled < SPIN_DOUBLED ? doubled : SPIN_DOUBLED));
	}
}

void roami_os_faults_unblock(void)
{
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
}

static bool os_thread(pthread_t *thread_p, const pthread_attr_t *attr, void *(*run)(void *),
		      void *arg)
{
	sigset_t all, old;
	pthread_t thread;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err == 0 && thread_p != NULL)
		*thread_p = thread;
	else if (err == 0)
		pthread_detach(thread);
	errno = err;
	return err == 0;
}

bool roami_os_thread(pthread_t *thread_p, void *(*run)(void *), void *arg)
{
	return os_thread(thread_p, NULL, run, arg);
}

bool roami_os_helper(pthread_t *thread_p, void *(*run)(void *), void *arg)
{
	pthread_attr_t small;
	bool runs = false;

	if (pthread_attr_init(&small) == 0) {
		pthread_attr_setstacksize(&small, HELPER_STACK);
		runs = os_thread(thread_p, &small, run, arg);
		pthread_attr_destroy(&small);
	}
	/* A program's thread-local variables stand on the stack, too: it may be too small. */
	return runs || os_thread(thread_p, NULL, run, arg);
}

int roami_os_pidfd(pid_t pid)
{
	return roami_os_fd((int)syscall(SYS_pidfd_open, pid, 0));
}

/* As in newer kernels' <linux/pidfd.h>. */
struct os_pidfd_info {
	uint64_t mask;
	uint64_t cgroup;
	uint32_t ids[11];
	int32_t exit_code;
};

#define OS_PIDFD_GET_INFO  _IOWR(0xff, 11, struct os_pidfd_info)
#define OS_PIDFD_INFO_EXIT (UINT64_C(1) << 3)

bool roami_os_pidfd_status(int pidfd, int *status)
{
	struct os_pidfd_info info = {.mask = OS_PIDFD_INFO_EXIT};

	if (ioctl(pidfd, OS_PIDFD_GET_INFO, &info) != 0 || (info.mask & OS_PIDFD_INFO_EXIT) == 0)
		return false;
	*status = info.exit_code;
	return true;
}

int roami_os_open_its(pid_t pid, int its, int flags)
{
	char path[64];
	struct stat status;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, its);
	fd = roami_os_fd(open(path, flags | O_CLOEXEC));
	if (fd < 0 || (fstat(fd, &status) == 0 && status.st_uid == geteuid()))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

bool roami_os_send(int fd, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	while (bytes > 0) {
		ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		at += sent;
		bytes -= (size_t)sent;
	}
	return true;
}

enum roami_os_got roami_os_receive(int fd, void *to, size_t *have_p, size_t want)
{
	while (*have_p < want) {
		ssize_t got = recv(fd, (uint8_t *)to + *have_p, want - *have_p, MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return ROAMI_OS_NOTHING;
		if (got <= 0)
			return ROAMI_OS_LOST;
		*have_p += (size_t)got;
	}
	return ROAMI_OS_GOT;
}

bool roami_os_peer(int fd, pid_t *pid_p, uid_t *uid_p)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0)
		return false;
	*pid_p = peer.pid;
	*uid_p = peer.uid;
	return true;
}

pid_t roami_os_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

uint64_t roami_os_random(void)
{
	uint64_t value;

	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
		value = roami_os_now_ns() * 0x9e3779b97f4a7c15u;
	return value;
}

bool roami_os_secret(void *bytes, size_t count)
{
	uint8_t *at = bytes;

	while (count > 0) {
		ssize_t got = getrandom(at, count, 0);

		if (got < 0 && errno != EINTR)
			return false;
		if (got > 0) {
			at += got;
			count -= (size_t)got;
		}
	}
	return true;
}
