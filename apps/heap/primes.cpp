// Counts primes and their last digits on all nodes: containers in the shared heap, loops over them,
// and a lock.  primes NODES [LIMIT], or under `roam run -n NODES`; the time goes to standard error.
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <roam/roam.hpp>

namespace {

int limit = 200000; // private: set before the nodes exist, so that each has it

struct all {
	roam::vector<char> prime = roam::vector<char>(static_cast<std::size_t>(limit), 1);
	roam::mutex mutex;
	roam::map<int, int> endings; // of primes, by their last digit
};

all *shared;

void work()
{
	std::int64_t found = 0;

	roam::parallel_for(2, limit, [&](int n) {
		for (int by = 2; by * by <= n && shared->prime[static_cast<std::size_t>(n)]; by++)
			if (n % by == 0)
				shared->prime[static_cast<std::size_t>(n)] = 0;
		if (!shared->prime[static_cast<std::size_t>(n)])
			return;
		found++;
		if (found % 16 == 0) {
			std::lock_guard guard(shared->mutex);
			shared->endings[n % 10]++;
		}
	});
	found = roam::sum(found);
	if (roam_node() == 0)
		std::printf("%lld primes below %d, %zu endings\n", static_cast<long long>(found), limit,
			    shared->endings.size());
}

} // namespace

int main(int argc, char **argv)
{
	const unsigned nodes = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 4;

	if (argc > 2)
		limit = std::atoi(argv[2]);
	if (limit < 2 || nodes == 0) {
		std::fprintf(stderr, "usage: primes [NODES [LIMIT]]\n");
		return 2;
	}
	shared = roam::make<all>();
	const auto start = roam_clock_us();
	roam::parallel(nodes, work);
	std::fprintf(stderr, "%.0f ms on %u nodes\n",
		     static_cast<double>(roam_clock_us() - start) / 1e3, nodes);
	roam::destroy(shared);
	return 0;
}
