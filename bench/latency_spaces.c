#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "latency.h"

/* A process in a new namespace, which ends with this one; 0: errno says why there is none. */
static pid_t space_hold(void)
{
	int told[2], error = EPERM;
	pid_t parent = getpid(), pid;

	if (pipe2(told, O_CLOEXEC) != 0)
		return 0;
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		error = unshare(CLONE_NEWNET) == 0 ? 0 : errno;
		if (getppid() != parent || write(told[1], &error, sizeof(error)) < 0 || error != 0)
			_exit(1);
		for (;;)
			pause();
	}
	close(told[1]);
	if (pid > 0 && read(told[0], &error, sizeof(error)) != sizeof(error))
		error = EPERM;
	close(told[0]);
	if (pid > 0 && error != 0) {
		waitpid(pid, NULL, 0);
		pid = -1;
		errno = error;
	}
	return pid > 0 ? pid : 0;
}

bool latency_spaces_enter(const struct latency_spaces *spaces, unsigned side)
{
	char path[64];
	int fd;
	bool entered;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)spaces->holder[side]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	entered = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
	if (fd >= 0)
		close(fd);
	return entered;
}

/* Runs ip with these words, split at spaces; side 2: here. */
static bool space_ip(const struct latency_spaces *spaces, unsigned side, const char *text)
{
	char words[160], *argv[24] = {"ip"}, *rest;
	unsigned count = 1;
	int status;
	pid_t pid;

	snprintf(words, sizeof(words), "%s", text);
	for (char *word = strtok_r(words, " ", &rest); word != NULL && count < 23;
	     word = strtok_r(NULL, " ", &rest))
		argv[count++] = word;
	pid = fork();
	if (pid == 0) {
		if (side < 2 && !latency_spaces_enter(spaces, side))
			_exit(1);
		execvp(argv[0], argv);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool spaces_join(const struct latency_spaces *spaces, unsigned mtu)
{
	char text[160];
	bool good;

	snprintf(text, sizeof(text),
		 "link add " LATENCY_DEVICE " netns %d type veth peer name " LATENCY_DEVICE
		 " netns %d",
		 (int)spaces->holder[0], (int)spaces->holder[1]);
	good = space_ip(spaces, 2, text);
	for (unsigned side = 0; side < 2 && good; side++) {
		snprintf(text, sizeof(text), "addr add 10.78.0.%u/24 dev " LATENCY_DEVICE,
			 side + 1);
		good = space_ip(spaces, side, "link set lo up") && space_ip(spaces, side, text);
		snprintf(text, sizeof(text), "link set " LATENCY_DEVICE " mtu %u up", mtu);
		good = good && space_ip(spaces, side, text);
	}
	return good;
}

bool latency_spaces_open(struct latency_spaces *spaces, unsigned mtu, char *why, size_t bytes)
{
	*spaces = (struct latency_spaces){{0, 0}};
	for (unsigned side = 0; side < 2; side++) {
		spaces->holder[side] = space_hold();
		if (spaces->holder[side] != 0)
			continue;
		snprintf(why, bytes, "no network namespace: %s", strerror(errno));
		latency_spaces_close(spaces);
		return false;
	}
	if (spaces_join(spaces, mtu))
		return true;
	snprintf(why, bytes, "the command ip did not join two network namespaces");
	latency_spaces_close(spaces);
	return false;
}

void latency_spaces_close(struct latency_spaces *spaces)
{
	for (unsigned side = 0; side < 2; side++) {
		if (spaces->holder[side] == 0)
			continue;
		kill(spaces->holder[side], SIGKILL);
		waitpid(spaces->holder[side], NULL, 0);
		spaces->holder[side] = 0;
	}
}
