/*
 * G_MALLOC, NU_MALLOC, G_MALLOC_F, NU_MALLOC_F, G_FREE, NU_FREE: shared memory, of main and of any
 * process after CREATE; with and without a semicolon and a home; blocks do not overlap.
 */
MAIN_ENV
include(conform.H)

static struct shared {
	long *of[64];
	char *pieces[64][20];
} *shared;

static void set_up(void)
{
	memset(shared, 0, sizeof(*shared));
}

static void work(void)
{
	long i, k, id = conform_id();

	if (id % 2 == 0)
		shared->of[id] = (long *)G_MALLOC(1000 * sizeof(long), id)
	else
		shared->of[id] = (long *)NU_MALLOC(1000 * sizeof(long), 0);
	for (i = 0; i < 1000; i++) {
#ifdef ROAM_PARMACS_ENV
		EXPECT(shared->of[id][i] == 0);
#endif
		shared->of[id][i] = 1000 * id + i;
	}
	for (i = 0; i < 20; i++) {
		shared->pieces[id][i] = i % 2 ? (char *)G_MALLOC_F((unsigned long)i + 1)
					      : (char *)NU_MALLOC_F((unsigned long)i + 1, 0);
		memset(shared->pieces[id][i], (int)(id * 20 + i) % 128, (unsigned long)i + 1);
	}
	MEET
	for (k = 0; k < procs; k++)
		for (i = id; i < 1000; i += procs) {
			EXPECT(shared->of[k][i] == 1000 * k + i);
			shared->of[k][i]++;
		}
	MEET
	for (i = 0; i < 1000; i++)
		EXPECT(shared->of[(id + 1) % procs][i] == 1000 * ((id + 1) % procs) + i + 1);
	for (k = 0; k < procs; k++)
		for (i = 0; i < 20; i++)
			EXPECT(shared->pieces[k][i][i] == (k * 20 + i) % 128 &&
			    shared->pieces[k][i][0] == shared->pieces[k][i][i]);
	MEET
	if (id == 0)
		for (k = 0; k < procs; k++)
			G_FREE(shared->of[k])
	if (id == procs - 1)
		NU_FREE(shared->pieces[0][3]);
}

static void check(void)
{
	EXPECT(shared->of[0] != NULL && (unsigned long)shared->of[0] % sizeof(long) == 0);
}

int main(int argc, char **argv)
{
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	MAIN_INITENV(,)
	G_FREE(G_MALLOC_F(0))
	return conform_run(argc, argv, set_up, work, check);
}
