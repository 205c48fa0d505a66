/*
 * roam where: prints what every thread of a job waits for, or where it computes, at the caller's
 * terminal.  It finds the memory of a node on this host through the descriptors of the node's
 * process and asks the node there; the node asks those of all hosts.  The program does not notice
 * it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/hang.h"
#include "os/os.h"
#include "roam_tool.h"

#define MEMORY     "/memfd:roam-node-"
#define ANSWER_MS  10000u /* time for the node to answer, as it waits for others itself */
#define EVERY_MS   10u
#define DEPTH_MAX  64u    /* levels of processes below the one that was named */
#define PIDS_MAX   4096u

struct where {
	struct roami_ctl *ctl; /* the control page of the node that is asked */
	bool found;            /* there is a node, but it has not joined */
	bool other;            /* there is a node of another version */
	int error;             /* errno of looking at the named process itself */
};

static int where_usage(FILE *to)
{
	fprintf(to, "usage: roam where PID\n"
		    "Prints what every thread of every node of a job waits for, or where it "
		    "computes.  PID is a node,\n"
		    "its launcher, or another ancestor.  The job goes on.  If no node is on this "
		    "host,\n"
		    "`roam run -H` prints the lines instead, on its own standard error.\n");
	return to == stdout ? 0 : TOOL_USAGE;
}

/* Looks whether this is the memory of a node of this version that is in a job. */
static void where_try(struct where *where, const char *path)
{
	int fd = roami_os_fd(open(path, O_RDWR | O_CLOEXEC));
	struct roami_ctl *ctl = MAP_FAILED;
	struct stat stat;

	if (fd >= 0 && fstat(fd, &stat) == 0 && (size_t)stat.st_size >= sizeof(*ctl))
		ctl = mmap(NULL, sizeof(*ctl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (ctl == MAP_FAILED)
		return;
	where->other |= ctl->magic != ROAMI_SEGMENT_MAGIC;
	where->found = true;
	if (ctl->magic == ROAMI_SEGMENT_MAGIC && atomic_load(&ctl->pid) != 0)
		where->ctl = ctl;
	else
		munmap(ctl, sizeof(*ctl));
}

/* Looks through the descriptors of a process.  false: they cannot be read. */
static bool where_look(struct where *where, pid_t pid)
{
	char path[300], link[64];
	struct dirent *entry;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	fds = opendir(path);
	if (fds == NULL)
		return false;
	while (where->ctl == NULL && (entry = readdir(fds)) != NULL) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/%d/fd/%s", (int)pid, entry->d_name);
		length = readlink(path, link, sizeof(link) - 1);
		link[length > 0 ? length : 0] = '\0';
		if (strncmp(link, MEMORY, strlen(MEMORY)) == 0)
			where_try(where, path);
	}
	closedir(fds);
	return true;
}

static pid_t where_parent(pid_t pid)
{
	char path[64], text[512], *at;
	ssize_t bytes;
	int fd, parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = roami_os_fd(open(path, O_RDONLY | O_CLOEXEC));
	bytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
	if (fd >= 0)
		close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	at = strrchr(text, ')'); /* behind the name come state and parent */
	if (at != NULL)
		sscanf(at + 1, " %*c %d", &parent);
	return parent;
}

/* Whether `pid` is a process below `top`. */
static bool where_below(pid_t pid, pid_t top)
{
	for (unsigned depth = 0; pid > 1 && depth < DEPTH_MAX; depth++) {
		pid = where_parent(pid);
		if (pid == top)
			return true;
	}
	return false;
}

/*
 * Looks at the process itself, then at those below it: a launcher's nodes, or a script's children.
 */
static void where_find(struct where *where, pid_t top)
{
	struct dirent *entry;
	DIR *all;

	if (!where_look(where, top))
		where->error = errno;
	all = where->ctl == NULL && where->error == 0 ? opendir("/proc") : NULL;
	while (all != NULL && where->ctl == NULL && (entry = readdir(all)) != NULL) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 1 && pid != top && where_below(pid, top))
			where_look(where, pid);
	}
	if (all != NULL)
		closedir(all);
}

/* Asks the node, and prints its answer. */
static int where_ask(struct roami_ctl *ctl)
{
	uint32_t asked = atomic_fetch_add(&ctl->where, 1) + 1, bytes;

	roami_look_at(ctl);
	for (unsigned ms = 0; (int32_t)(atomic_load(&ctl->where_reported) - asked) < 0;
	     ms += EVERY_MS) {
		if (ms >= ANSWER_MS) {
			tool_say("where: process %d does not answer within %u s: it is stopped, "
				 "or has ended",
				 (int)atomic_load(&ctl->pid), ANSWER_MS / 1000);
			return TOOL_FAILED;
		}
		usleep(EVERY_MS * 1000);
	}
	bytes = atomic_load(&ctl->where_bytes);
	fwrite(ctl->report, 1, bytes < sizeof(ctl->report) ? bytes : sizeof(ctl->report), stdout);
	return 0;
}

/* Whether a process runs this program, and handles SIGQUIT as `roam run` does. */
static bool where_launches(pid_t pid)
{
	char path[64], line[200];
	struct stat mine, its;
	uint64_t blocked = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat("/proc/self/exe", &mine) != 0 || stat(path, &its) != 0 ||
	    mine.st_dev != its.st_dev || mine.st_ino != its.st_ino)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	status = roami_os_file(path);
	while (status != NULL && fgets(line, sizeof(line), status) != NULL)
		sscanf(line, "SigBlk: %lx", &blocked);
	if (status != NULL)
		fclose(status);
	return (blocked >> (SIGQUIT - 1) & 1) != 0;
}

int tool_where(int argc, char **argv)
{
	struct where where = {.ctl = NULL};
	char *end = NULL;
	long pid;

	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return where_usage(stdout);
	pid = argc == 2 ? strtol(argv[1], &end, 10) : 0;
	if (argc != 2 || end == argv[1] || *end != '\0' || pid <= 0 || pid > INT32_MAX)
		return where_usage(stderr);
	where_find(&where, (pid_t)pid);
	if (where.ctl != NULL)
		return where_ask(where.ctl);
	if (where.error == 0 && !where.found && where_launches((pid_t)pid) &&
	    sigqueue((pid_t)pid, SIGQUIT, (union sigval){.sival_int = TOOL_WHERE}) == 0) {
		tool_say("where: the job's nodes are on other hosts: process %ld says it", pid);
		return 0;
	}
	if (where.error != 0)
		tool_say("where: process %ld: %s", pid,
			 strerror(where.error == ENOENT ? ESRCH : where.error));
	else if (where.other)
		tool_say("where: process %ld is of another version of roam", pid);
	else if (where.found)
		tool_say("where: no node of process %ld has started yet", pid);
	else
		tool_say("where: neither process %ld nor one below it is in a job of roam", pid);
	return TOOL_FAILED;
}
