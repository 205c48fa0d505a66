/* CLOCK: microseconds, which run forwards, the same for all processes of the host; any lvalue. */
MAIN_ENV
include(conform.H)

static struct shared {
	struct {
		unsigned long begin, end;
	} time;
	unsigned long early;
} *shared;

static void set_up(void)
{
	CLOCK(shared->early)
}

static void work(void)
{
	long id = conform_id();
	unsigned long now;

	if (id == procs - 1) {
		CLOCK(shared->time.begin)
		usleep(30000);
		CLOCK((shared->time).end);
	}
	MEET
	CLOCK(now);
	EXPECT(shared->early <= shared->time.begin);
	EXPECT(shared->time.end - shared->time.begin >= 30000);
	EXPECT(shared->time.end - shared->time.begin < 20000000);
	EXPECT(now >= shared->time.end && now - shared->time.end < 20000000);
}

static void check(void)
{
}

int main(int argc, char **argv)
{
	MAIN_INITENV(,)
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	return conform_run(argc, argv, set_up, work, check);
}
