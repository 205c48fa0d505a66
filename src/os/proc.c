/* What the kernel tells in files. */
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "os/os.h"

/* The number, to this base, in the line that begins with `key`; 0: none. */
static uint64_t proc_number(const char *path, const char *key, int base)
{
	FILE *file = roami_os_file(path);
	uint64_t number = 0;
	char line[128];

	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, key, strlen(key)) == 0) {
			number = strtoull(line + strlen(key), NULL, base);
			break;
		}
	fclose(file);
	return number;
}

bool roami_os_blocks(pid_t tid, int number)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	return (proc_number(path, "SigBlk:", 16) >> (number - 1) & 1) != 0;
}

/*
 * What a thread that sleeps waits for: "202 0x7f5a08001028 0x189 0x0 0x0 ...", the system call and
 * its arguments.  No other process can wake a private futex, and no time without a timeout.
 */
static bool proc_waits_inside(const char *path)
{
	unsigned long word, op, value, timeout;
	FILE *file = roami_os_file(path);
	bool waits = false;
	char line[200];
	long call;

	if (file == NULL)
		return false;
	if (fgets(line, sizeof(line), file) != NULL &&
	    sscanf(line, "%ld %lx %lx %lx %lx", &call, &word, &op, &value, &timeout) == 5) {
		op &= ~(unsigned long)FUTEX_CLOCK_REALTIME;
		waits = call == SYS_futex && timeout == 0 &&
			(op == FUTEX_WAIT_PRIVATE || op == FUTEX_WAIT_BITSET_PRIVATE);
	}
	fclose(file);
	return waits;
}

bool roami_os_dormant(pid_t tid, uint64_t *sleeps)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	if (!proc_waits_inside(path) || roami_os_blocks(tid, SIGQUIT))
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	*sleeps = proc_number(path, "voluntary_ctxt_switches:", 10);
	return *sleeps != 0;
}

/* Reads the kernel's line about a process that has ended and is kept; NULL: it is none. */
static char *proc_zombie(pid_t pid, char *line, size_t bytes)
{
	char path[32], *at = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = roami_os_file(path);
	if (file == NULL)
		return NULL;
	if (fgets(line, (int)bytes, file) != NULL)
		at = strrchr(line, ')'); /* its name may hold anything */
	fclose(file);
	return at != NULL && at[1] == ' ' && at[2] == 'Z' ? at : NULL;
}

bool roami_os_zombie(pid_t pid)
{
	char line[1024];

	return proc_zombie(pid, line, sizeof(line)) != NULL;
}

bool roami_os_zombie_status(pid_t pid, int *status)
{
	char line[1024], *at;

	if (proc_zombie(pid, line, sizeof(line)) == NULL)
		return false;
	at = strrchr(line, ' '); /* the last field */
	*status = at != NULL ? atoi(at) : 0;
	return *status != 0; /* 0 is what it says where we may not look, too */
}

/* Not getrusage's number, which covers what the process was before exec: the launcher, a shell. */
uint64_t roami_os_rss_peak_kb(void)
{
	return proc_number("/proc/self/status", "VmHWM:", 10);
}

bool roami_os_traced(void)
{
	return proc_number("/proc/self/status", "TracerPid:", 10) != 0;
}

/*
 * Of one line of /proc/self/cgroup, "number:controllers:path", the number in a file of the memory
 * group that it is about, called `old` in version 1; 0: none.
 */
static uint64_t proc_group_number(const char *line, const char *old, const char *name,
				  const char *key)
{
	const char *controllers = strchr(line, ':'), *group;
	char path[600];
	int length;

	group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
	if (group == NULL)
		return 0;
	length = (int)strcspn(group + 1, "\n");
	if (strncmp(controllers, ":memory:", 8) == 0)
		snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%.*s/%s", length, group + 1,
			 old);
	else if (group == controllers + 1) /* version 2 */
		snprintf(path, sizeof(path), "/sys/fs/cgroup%.*s/%s", length, group + 1, name);
	else
		return 0;
	return proc_number(path, key, 10);
}

uint64_t roami_os_oom_kills(void)
{
	FILE *file = roami_os_file("/proc/self/cgroup");
	uint64_t kills = 0;
	char line[512];

	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
		kills += proc_group_number(line, "memory.oom_control", "memory.events",
					   "oom_kill ");
	fclose(file);
	return kills;
}

bool roami_os_numa(void)
{
	FILE *file = roami_os_file("/sys/devices/system/node/has_memory");
	char line[64] = "";
	bool several;

	if (file == NULL)
		return false;
	several = fgets(line, sizeof(line), file) != NULL && strpbrk(line, ",-") != NULL;
	fclose(file);
	return several;
}

uint64_t roami_os_memory_free(void)
{
	uint64_t least = proc_number("/proc/meminfo", "MemAvailable:", 10) << 10;
	FILE *file = roami_os_file("/proc/self/cgroup");
	char line[512];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		uint64_t most = proc_group_number(line, "memory.limit_in_bytes", "memory.max", "");
		uint64_t used =
			proc_group_number(line, "memory.usage_in_bytes", "memory.current", "");

		if (most != 0 && (used > most ? 0 : most - used) < least)
			least = used > most ? 0 : most - used;
	}
	if (file != NULL)
		fclose(file);
	return least;
}
