// Counts primes and their last digits on all nodes: containers in the shared heap, loops over them,
// and a lock.  primes NODES, or under `roam run -n NODES`.
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <roam/roam.hpp>

namespace {

constexpr int LIMIT = 200000;

struct all {
	roam::vector<char> prime = roam::vector<char>(LIMIT, 1);
	roam::mutex mutex;
	roam::map<int, int> endings; // of primes, by their last digit
};

all *shared;

void work()
{
	std::int64_t found = 0;

	roam::parallel_for(2, LIMIT, [&](int n) {
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
		std::printf("%lld primes below %d, %zu endings\n", static_cast<long long>(found), LIMIT,
			    shared->endings.size());
}

} // namespace

int main(int argc, char **argv)
{
	shared = roam::make<all>();
	roam::parallel(argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 4, work);
	roam::destroy(shared);
	return 0;
}
