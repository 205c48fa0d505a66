/* What the kernel tells in files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

/* The number in the line that begins with `key`; 0: none. */
static uint64_t proc_number(const char *path, const char *key)
{
	FILE *file = roami_os_file(path);
	uint64_t number = 0;
	char line[128];

	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, key, strlen(key)) == 0) {
			number = strtoull(line + strlen(key), NULL, 10);
			break;
		}
	fclose(file);
	return number;
}

bool roami_os_zombie_status(pid_t pid, int *status)
{
	char path[32], line[1024], *at = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = roami_os_file(path);
	if (file == NULL)
		return false;
	if (fgets(line, sizeof(line), file) != NULL)
		at = strrchr(line, ')'); /* its name may hold anything */
	fclose(file);
	if (at == NULL || at[1] != ' ' || at[2] != 'Z')
		return false;
	at = strrchr(line, ' '); /* the last field */
	*status = at != NULL ? atoi(at) : 0;
	return *status != 0; /* 0 is what it says where we may not look, too */
}

/* Not getrusage's number, which covers what the process was before exec: the launcher, a shell. */
uint64_t roami_os_rss_peak_kb(void)
{
	return proc_number("/proc/self/status", "VmHWM:");
}

bool roami_os_traced(void)
{
	return proc_number("/proc/self/status", "TracerPid:") != 0;
}

/* Of one line of /proc/self/cgroup, "number:controllers:path". */
static uint64_t proc_oom_kills(char *line)
{
	char *controllers = strchr(line, ':'), *group, path[600];

	if (controllers == NULL)
		return 0;
	*controllers++ = '\0';
	group = strchr(controllers, ':');
	if (group == NULL)
		return 0;
	*group++ = '\0';
	group[strcspn(group, "\n")] = '\0';
	if (strcmp(controllers, "memory") == 0)
		snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.oom_control", group);
	else if (controllers[0] == '\0') /* version 2 */
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.events", group);
	else
		return 0;
	return proc_number(path, "oom_kill ");
}

uint64_t roami_os_oom_kills(void)
{
	FILE *file = roami_os_file("/proc/self/cgroup");
	uint64_t kills = 0;
	char line[512];

	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
		kills += proc_oom_kills(line);
	fclose(file);
	return kills;
}
