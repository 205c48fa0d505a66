/* hello: every node adds its number to a shared sum.  `roam run -n 4 ./hello`, or alone. */
#include <roam/roam.h>
#include <stdio.h>
#include <stdlib.h>

static void must(enum roam_err err)
{
	if (err == ROAM_OK)
		return;
	fprintf(stderr, "hello: %s\n", roam_strerror(err));
	exit(1);
}

int main(void)
{
	long *sum;

	if (roam_start() != ROAM_OK)
		return 1; /* roam has reported why */
	sum = roam_alloc(sizeof(*sum)); /* the same address on every node */
	if (sum == NULL)
		must(roam_errno());
	must(roam_barrier_all());

	must(roam_lock(sum)); /* an address names the lock; its bytes are the program's */
	*sum += roam_node() + 1;
	printf("hello from node %u of %u\n", roam_node(), roam_nodes());
	must(roam_unlock(sum));

	must(roam_barrier_all());
	if (roam_node() == 0)
		printf("the sum of 1 to %u is %ld\n", roam_nodes(), *sum);
	must(roam_finish());
	return 0;
}
