#include <roam/roam.h>
#include <stdio.h>

static double *sum; /* a private pointer to shared memory */

static void work(void) /* runs on every node */
{
	double mine = 0;

	for (int i = (int)roam_node(); i < 10000000; i += (int)roam_nodes())
		mine += 4e-7 / (1 + (i + 0.5) * (i + 0.5) * 1e-14);
	roam_lock(sum); /* an address names the lock */
	*sum += mine;
	roam_unlock(sum);
}

int main(void)
{
	sum = roam_alloc(sizeof(*sum));
	if (sum == NULL || roam_create_all(work, 4) || roam_wait_for_end())
		return 1; /* roam has reported why */
	printf("pi is %.9f\n", *sum);
	return 0;
}
