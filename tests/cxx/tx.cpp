// Shows that roam::transaction is one step, returns values, and passes exceptions on after it has
// undone what was written, also through several of them.  tx NODES
#include <cstdlib>
#include <stdexcept>

#include <unistd.h>

#include <roam/tx.hpp>

#include "check.hpp"

namespace {

constexpr int rounds = 500;

struct all {
	long one;
	char page[ROAM_PAGE_SIZE];
	long two;
	long thrown;
	char last[ROAM_PAGE_SIZE];
	long over;
};

all *shared;

void moves()
{
	for (int i = 0; i < rounds; i++) {
		const long sum = roam::transaction([&] {
			shared->one += i;
			shared->two -= i;
			return shared->one + shared->two;
		});

		check(sum == 0);
	}
}

/* Every third one throws, and leaves nothing. */
void throws()
{
	int caught = 0;

	for (int i = 0; i < rounds; i++)
		try {
			roam::transaction([&] {
				shared->thrown++;
				roam::transaction([&] {
					shared->one++;
					if (i % 3 == 0)
						throw std::runtime_error("a text that is long enough for an allocation");
				});
				shared->two--;
			});
		} catch (const std::runtime_error &) {
			caught++;
		}
	check(caught == (rounds + 2) / 3);
}

/* In a library while others write. */
void throw_late(const volatile long &read)
{
	static_cast<void>(read + 0); /* which no compiler leaves out */
	usleep(5000);
	throw std::runtime_error("too late");
}

/* One that throws, but is doomed by then and has no further attempt: its exception is not real. */
void times_out()
{
	const roam_tx_options once{1};
	int late = 0;

	if (roam_node() != 0)
		while (roam::transaction([] { return shared->over; }) == 0)
			shared->thrown = 0;
	for (int i = 0; roam_node() == 0 && i < 20 && late == 0; i++)
		try {
			roam::transaction([] { throw_late(shared->thrown); }, &once);
		} catch (const roam::error &error) {
			late += error.err() == ROAM_ETIMEDOUT;
		} catch (const std::runtime_error &) {
			continue;
		}
	shared->over = 1;
	check(roam_node() != 0 || roam_nodes() == 1 || late == 1);
	check(roam_barrier_all() == ROAM_OK);
}

void work()
{
	moves();
	check(roam_barrier_all() == ROAM_OK);
	times_out();
	throws();
	fails(ROAM_EUNSUPPORTED, [] { roam::durable(); });
	fails(ROAM_ECANCELED, [] { roam::transaction([] { roam_tx_cancel(); }); });
	check(roam_barrier_all() == ROAM_OK);
	check(shared->one + shared->two == 0);
	check(shared->thrown == static_cast<long>(roam_nodes()) * (rounds - (rounds + 2) / 3));
}

} // namespace

int main(int argc, char **argv)
{
	check(argc == 2);
	shared = static_cast<all *>(roam_alloc(sizeof(all)));
	check(shared != nullptr);
	check(roam_create_all(work, static_cast<unsigned>(std::atoi(argv[1]))) == ROAM_OK);
	check(roam_wait_for_end() == ROAM_OK);
}
