/* What a user builds with nothing but `pkg-config --cflags --libs roam`; C, and C++ as well. */
#include <roam/roam.h>
#include <stdio.h>
#include <string.h>

static int *counts;

static void count(void)
{
	counts[roam_node()] = (int)roam_node() + 1;
}

/* Where a block lies that is under the job's protocol, and one under each of these. */
static int show(char *const *protocols)
{
	struct roam_region region;

	printf("%p\n", roam_alloc(100));
	for (; *protocols != NULL; protocols++) {
		memset(&region, 0, sizeof(region));
		region.protocol = *protocols;
		printf("%p\n", roam_alloc_region(5000, &region));
	}
	return roam_finish();
}

int main(int argc, char **argv)
{
	char version[32];

	snprintf(version, sizeof(version), "%d.%d.%d", ROAM_VERSION_MAJOR, ROAM_VERSION_MINOR,
		 ROAM_VERSION_PATCH);
	if (strcmp(version, roam_version()) != 0 || roam_start() != ROAM_OK)
		return 1;
	if (argc > 1)
		return show(argv + 1);
	counts = (int *)roam_alloc(3 * sizeof(int));
	if (counts == NULL || roam_create_all(count, 3) != ROAM_OK ||
	    roam_wait_for_end() != ROAM_OK)
		return 1;
	printf("roam %s: %d\n", roam_version(), counts[0] + counts[1] + counts[2]);
	return roam_finish();
}
