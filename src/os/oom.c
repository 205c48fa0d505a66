/* Whether the kernel ended processes because memory ran out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

/* The number after "oom_kill " in a file of such lines; 0: none. */
static uint64_t oom_count(const char *path)
{
	unsigned long long kills = 0;
	FILE *file = fopen(path, "re");
	char line[128];

	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
		if (sscanf(line, "oom_kill %llu", &kills) == 1)
			break;
	fclose(file);
	return kills;
}

/* Of one line of /proc/self/cgroup, "number:controllers:path". */
static uint64_t oom_group(char *line)
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
	return oom_count(path);
}

uint64_t roami_os_oom_kills(void)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	uint64_t kills = 0;
	char line[512];

	if (file == NULL)
		return 0;
	while (fgets(line, sizeof(line), file) != NULL)
		kills += oom_group(line);
	fclose(file);
	return kills;
}
