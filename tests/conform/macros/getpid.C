/* GET_PID: a number of its own for each process; over roam 0 .. P - 1, and main's is 0. */
MAIN_ENV
include(conform.H)

static struct shared {
	long pid[64];
} *shared;

static void set_up(void)
{
}

static void work(void)
{
	long id = conform_id(), pid = -1, i;

	GET_PID(shared->pid[id])
	GET_PID(pid);
	EXPECT(pid == shared->pid[id]);
#ifdef ROAM_PARMACS_ENV
	EXPECT(pid >= 0 && pid < procs);
#endif
	MEET
	for (i = 0; i < procs; i++)
		EXPECT(i == id || shared->pid[i] != pid);
}

static void check(void)
{
	long pid;

	GET_PID(pid)
#ifdef ROAM_PARMACS_ENV
	EXPECT(pid == 0);
#else
	EXPECT(pid > 0);
#endif
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
