/*
 * Shows that rounds of CREATE and WAIT_FOR_END leave no mapping behind; a process has few of them.
 * (The guard pages around the segments of ended nodes once stayed.)
 * round_maps ROUNDS
 */
#include "../multi/multi.h"

#define SLACK 4 /* of the C library and the kernel */

static int *count;

static void node_main(void)
{
	must(roam_lock(count));
	++*count;
	must(roam_unlock(count));
}

static int mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	int lines = 0;

	check(file != NULL);
	for (int byte = getc(file); byte != EOF; byte = getc(file))
		lines += byte == '\n';
	fclose(file);
	return lines;
}

int main(int argc, char **argv)
{
	unsigned rounds;
	int first = 0;

	check(argc == 2);
	rounds = number(argv[1]);
	must(roam_start());
	count = roam_alloc(sizeof(*count));
	check(count != NULL);
	for (unsigned round = 0; round < rounds; round++) {
		must(roam_create_all(node_main, 3));
		must(roam_wait_for_end());
		first = round == 1 ? mappings() : first;
	}
	check(mappings() <= first + SLACK);
	check(*count == 3 * (int)rounds);
	return 0;
}
