/*
 * Pi by counting random points in a quarter of a circle, in C++ over elements.  Node 0 moves tasks
 * to a bag, all nodes take tasks from it, and a global sum adds up their counts.
 *
 *	g++ -std=c++17 -O2 pi.cpp $(pkg-config --cflags --libs roam) -o pi && roam run -n 4 ./pi
 */
#include <roam/pastset.hpp>

#include <cstdio>
#include <random>

static const std::uint64_t points = 100000; /* of a task */
static const std::uint32_t tasks = 64;

static std::uint64_t inside(std::uint32_t seed)
{
	std::mt19937 random(seed);
	std::uniform_real_distribution<double> place(0, 1);
	std::uint64_t count = 0;

	for (std::uint64_t i = 0; i < points; i++) {
		double x = place(random), y = place(random);

		count += x * x + y * y < 1;
	}
	return count;
}

int main()
try {
	unsigned nodes = roam_start() == ROAM_OK ? roam_nodes() : 0;
	roam::element<std::uint32_t> bag("tasks", roam::options().delta(2 * nodes));
	roam::element<std::uint64_t> sum("sum", roam::options().function("sum", nodes));
	std::uint64_t count = 0;

	if (roam_node() == 0)
		for (std::uint32_t task = 1; task <= tasks + nodes; task++)
			bag.move(task <= tasks ? task : 0); /* 0: no more */
	for (;;) {
		auto [seed] = bag.observe();

		if (seed == 0)
			break;
		count += inside(seed);
	}
	auto [all] = sum.mob(count);
	if (roam_node() == 0)
		std::printf("pi is about %.3f\n",
			    4.0 * static_cast<double>(all) / static_cast<double>(points * tasks));
	return roam_finish();
} catch (const roam::error &error) {
	std::fprintf(stderr, "%s\n", error.what());
	return 1;
}
