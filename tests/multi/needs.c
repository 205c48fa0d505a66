/*
 * Declares models and shares something.  needs START NODES [MODEL]...: what it needs, by name, in
 * this order; START fork: roam_create_all; run: under roam run.
 */
#include "multi.h"

static unsigned nodes;
static unsigned *sums;

static enum roam_model model_of(const char *name)
{
	if (strcmp(name, "SC") == 0)
		return ROAM_MODEL_SC;
	return strcmp(name, "RC") == 0 ? ROAM_MODEL_RC : ROAM_MODEL_SCC;
}

static void node_main(void)
{
	unsigned sum = 0;

	must(roam_needs(ROAM_MODEL_SCC)); /* every node calls it, for a weaker model than before */
	sums[roam_node()] = roam_node() + 1;
	must(roam_barrier_all());
	for (unsigned i = 0; i < nodes; i++)
		sum += sums[i];
	check(sum == nodes * (nodes + 1) / 2);
	must(roam_barrier_all());
}

int main(int argc, char **argv)
{
	check(argc >= 3);
	nodes = number(argv[2]);
	for (int i = 3; i < argc; i++)
		must(roam_needs(model_of(argv[i])));
	must_fail(roam_needs(ROAM_MODEL_TX), ROAM_EINVAL);
	must_fail(roam_needs((enum roam_model)77), ROAM_EINVAL);
	sums = must_alloc(nodes * sizeof(*sums));
	if (strcmp(argv[1], "fork") == 0)
		must(roam_create_all(node_main, nodes));
	else
		node_main();
	must(roam_finish());
	must_fail(roam_needs(ROAM_MODEL_SC), ROAM_ESTATE);
	if (roam_node() == 0)
		printf("all summed\n");
	return 0;
}
