/* roam bench apps: one run of a program, over roam or on threads. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app.h"

static const char *const apps_places[] = {"../apps", "../libexec/roam/apps", "../../apps"};

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

bool apps_find(char *directory, size_t bytes)
{
	const char *given = getenv("ROAM_BENCH_APPS");
	char self[PATH_MAX], probe[2 * PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (given != NULL) {
		snprintf(directory, bytes, "%s", given);
		return true;
	}
	if (length < 0)
		return false;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(apps_places) / sizeof(apps_places[0]); i++) {
		snprintf(directory, bytes, "%s/%s", self, apps_places[i]);
		snprintf(probe, sizeof(probe), "%s/fft", directory);
		if (access(probe, X_OK) == 0)
			return true;
	}
	return false;
}

/* -------------------------------------------------------------------------------- one run */

__attribute__((noreturn)) static void run_child(const struct app_run *run, int out)
{
	char procs[16], threads[16];
	char *argv[8];
	unsigned count = 0;
	int nowhere;

	snprintf(procs, sizeof(procs), "-p%u", run->procs);
	snprintf(threads, sizeof(threads), "%u", run->app->threads);
	argv[count++] = (char *)(uintptr_t)run->path;
	argv[count++] = procs;
	for (unsigned i = 0; run->app->arguments[i] != NULL; i++)
		argv[count++] = (char *)(uintptr_t)run->app->arguments[i];
	if (run->verify)
		argv[count++] = (char *)(uintptr_t)run->app->verify;
	argv[count] = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(run->seconds);
	if (run->engine != NULL) {
		setenv("ROAM_FAULT", run->engine, 1);
		setenv("ROAM_PROTOCOL", run->protocol, 1);
		setenv("ROAM_PIN", "1", 1);
		if (run->app->threads > 0)
			setenv("ROAM_THREADS", threads, 1);
	}
	dup2(out, STDOUT_FILENO);
	nowhere = run->seconds < APP_SECONDS_MAX ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
	if (nowhere >= 0)
		dup2(nowhere, STDERR_FILENO); /* its nodes report that one was killed */
	execv(run->path, argv);
	_exit(127);
}

/* Reads the program's output to its end; keeps the beginning. */
static void run_read(int from, char *text, size_t bytes)
{
	size_t used = 0;
	char rest[512];
	ssize_t got;

	for (;;) {
		size_t room = bytes - 1 - used;

		got = room > 0 ? read(from, text + used, room) : read(from, rest, sizeof(rest));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		if (room > 0)
			used += (size_t)got;
	}
	text[used] = '\0';
}

bool app_run_once(const struct app_run *run, double *wall_p, double *region_p)
{
	char text[4096];
	const char *region;
	double start;
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	fflush(NULL);
	start = now_us();
	pid = fork();
	if (pid == 0)
		run_child(run, ends[1]);
	close(ends[1]);
	if (pid > 0) {
		run_read(ends[0], text, sizeof(text));
		waitpid(pid, &status, 0);
	}
	*wall_p = now_us() - start;
	close(ends[0]);
	if (pid > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM &&
	    run->seconds < APP_SECONDS_MAX)
		return false;
	region = pid > 0 ? strstr(text, "region_us ") : NULL;
	if (status != 0 || region == NULL || (run->verify && strstr(text, "verified ok") == NULL)) {
		fprintf(stderr, "roam bench: %s -p%u %s%s fails: %s\n", run->path, run->procs,
			run->engine != NULL ? run->engine : "",
			run->verify ? " (verified run)" : "", pid > 0 ? text : strerror(errno));
		return false;
	}
	*region_p = atof(region + strlen("region_us "));
	return true;
}
