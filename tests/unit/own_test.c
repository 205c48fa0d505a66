/*
 * When a process claims a node's number, others see it, and no other user's file is opened for a
 * node's.
 */
#include "launch/own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/os.h"
#include "unit.h"

#define NOBODY 65534
#define ITS    40

static char where[] = P_tmpdir "/roam-own-XXXXXX";

static struct roami_bound bound_soon(void)
{
	return (struct roami_bound){.me = 3,
				    .until = roami_os_now_ns() + UINT64_C(10000000000)};
}

static struct roami_own opened(void)
{
	struct roami_bound bound = bound_soon();
	struct roami_own own;

	CU_ASSERT_FATAL(roami_own_open(&bound, &own));
	CU_ASSERT_FATAL(strncmp(own.path, where, strlen(where)) == 0);
	return own;
}

/* Starts a process that calls the function and then waits to be killed; returns after the call. */
static pid_t another(void (*does)(const struct roami_own *own))
{
	int ready[2];
	pid_t pid = -1;
	char byte;

	CU_ASSERT_FATAL(pipe(ready) == 0);
	pid = fork();
	CU_ASSERT_FATAL(pid >= 0);
	if (pid == 0) {
		struct roami_own own = opened();

		does(&own);
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	CU_ASSERT_FATAL(read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void gone(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void claims(const struct roami_own *own)
{
	struct roami_bound bound = bound_soon();

	if (!roami_bound_claim(&bound, own->claims, 70))
		_exit(1);
}

static void holds(const struct roami_own *own)
{
	if (!roami_own_hold(own, 70))
		_exit(1);
}

static void holds_briefly(const struct roami_own *own)
{
	holds(own);
	ualarm(100000, 0);
}

static void test_claimed(void)
{
	struct roami_own own = opened();
	struct roami_bound bound = bound_soon();
	pid_t pid = another(claims);
	char wanted[80];

	snprintf(wanted, sizeof(wanted), "node 3 runs in two processes, %d and %d", (int)pid,
		 (int)getpid());
	CU_ASSERT_FALSE(roami_bound_claim(&bound, own.claims, 70));
	CU_ASSERT_TRUE(bound.final);
	CU_ASSERT_EQUAL(strncmp(bound.why, wanted, strlen(wanted)), 0);
	CU_ASSERT_FALSE(roami_own_hold(&own, 70));
	CU_ASSERT_TRUE(roami_bound_claim(&bound, own.claims, 71));
	gone(pid);
	CU_ASSERT_TRUE(roami_bound_claim(&bound, own.claims, 70));
	roami_own_close(&own);
}

/* A process that only checks whether a number is claimed is waited for. */
static void test_looked_at(void)
{
	struct roami_own own = opened();
	struct roami_bound bound = bound_soon();
	pid_t pid = another(holds_briefly);

	CU_ASSERT_TRUE(roami_own_hold(&own, 70)); /* so may others */
	roami_own_free(&own, 70);
	CU_ASSERT_TRUE(roami_bound_claim(&bound, own.claims, 70));
	gone(pid);
	roami_own_free(&own, 70);
	pid = another(holds);
	bound.until = roami_os_now_ns() + 50000000; /* not for ever */
	CU_ASSERT_FALSE(roami_bound_claim(&bound, own.claims, 70));
	CU_ASSERT_FALSE(bound.final);
	gone(pid);
	roami_own_close(&own);
}


static void makes(const struct roami_own *own)
{
	(void)own;
	if (dup2(roami_os_memfd("own", 4096), ITS) != ITS)
		_exit(1);
}

static void makes_as_nobody(const struct roami_own *own)
{
	if (seteuid(NOBODY) != 0)
		_exit(1);
	makes(own);
	/* To have been another user takes a process's descriptors from the sight of others. */
	if (seteuid(0) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
		_exit(1);
}

static void test_its(void)
{
	pid_t pid = another(makes);
	int fd = roami_os_open_its(pid, ITS, O_RDWR);

	CU_ASSERT_TRUE(fd > 2);
	close(fd);
	CU_ASSERT_TRUE(roami_os_open_its(pid, ITS + 1, O_RDWR) < 0 && errno == ENOENT);
	gone(pid);
	if (geteuid() != 0)
		return;
	pid = another(makes_as_nobody);
	CU_ASSERT_TRUE(roami_os_open_its(pid, ITS, O_RDWR) < 0 && errno == EPERM);
	gone(pid);
}

static CU_TestInfo tests[] = {
	{"a claim of what another one has", test_claimed},
	{"a process that only looks is waited for", test_looked_at},
	{"what another process has open", test_its},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	char path[sizeof(where) + 16];
	int status;

	if (mkdtemp(where) == NULL || setenv("XDG_RUNTIME_DIR", where, 1) != 0)
		return 1;
	status = unit_main("own", tests, argc, argv);
	snprintf(path, sizeof(path), "%s/roam/claims", where);
	unlink(path);
	snprintf(path, sizeof(path), "%s/roam", where);
	rmdir(path);
	rmdir(where);
	return status;
}
