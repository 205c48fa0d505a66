// Shows that containers of roam/roam.hpp are shared with all that they hold, that its locks and
// conditions are those of std::lock_guard and the like, and that parallel_for leaves none out.
// heap NODES
#include <cstdlib>
#include <mutex>
#include <shared_mutex>

#include <roam/roam.hpp>

#include "check.hpp"

namespace {

using namespace std::chrono_literals;

struct all {
	roam::mutex mutex;
	roam::condition condition;
	roam::shared_mutex table_mutex;
	roam::vector<roam::string> names;
	roam::unordered_map<int, roam::list<int>> table;
	roam::map<roam::string, int> order;
	roam::set<int> set;
	roam::deque<int> deque;
	roam::vector<int> marks = roam::vector<int>(1001);
	unsigned ready = 0;
};

struct named {
	all *shared;
	std::uint32_t nodes;
};

all *shared;

void fill()
{
	const unsigned me = roam_node();
	std::lock_guard guard(shared->mutex);

	for (int i = 0; i < 50; i++) {
		shared->names.emplace_back("a name that is too long for the string itself");
		shared->order[roam::string("key ") + std::to_string(i).c_str()]++;
		shared->set.insert(i);
		shared->deque.push_back(static_cast<int>(me));
	}
}

void tables()
{
	for (int i = 0; i < 100; i++) {
		std::unique_lock writer(shared->table_mutex);
		shared->table[i].push_back(static_cast<int>(roam_node()));
	}
	roam::barrier();
	for (int i = 0; i < 100; i++) {
		std::shared_lock reader(shared->table_mutex);
		check(shared->table.at(i).size() == roam_nodes());
	}
	roam::barrier();
}

void waits()
{
	std::unique_lock lock(shared->mutex);

	check(!shared->condition.wait_for(lock, 5ms, [] { return shared->ready > 1000; }));
	shared->ready++;
	shared->condition.notify_all();
	shared->condition.wait(lock, [] { return shared->ready >= roam_nodes(); });
	check(!shared->mutex.try_lock());
	lock.unlock();
	roam::barrier();
	if (roam_node() == 0) {
		check(shared->mutex.try_lock_for(10s));
		shared->mutex.unlock();
		check(shared->table_mutex.try_lock_shared_for(10s));
		check(!shared->table_mutex.try_lock_for(1ms));
		shared->table_mutex.unlock_shared();
		check(shared->table_mutex.try_lock_for(10s));
		shared->table_mutex.unlock();
		try {
			shared->mutex.unlock();
			check(false);
		} catch (const roam::error &error) {
			check(error.err() == ROAM_ENOTHELD && error.what()[0] != ':');
		}
	}
}

/* Bounds of one type or of two, at the ends of their types. */
void loops()
{
	unsigned long seen = 0;

	roam::parallel_for(0, shared->marks.size(), [](auto i) { shared->marks[i]++; });
	for (int i = 0; i < 1001; i++)
		check(shared->marks[static_cast<std::size_t>(i)] == i + 1);
	roam::parallel_for(INT32_MAX - 3, INT32_MAX, [&](int) { seen++; });
	roam::parallel_for(INT64_MAX - 3, UINT64_MAX / 2, [&](std::uint64_t) { seen++; });
	roam::parallel_for(-3, std::int64_t{2}, [&](std::int64_t i) { seen += i < 2; });
	check(roam::sum(seen) == 3 + 3 + 5);
	try {
		roam::parallel_for(-1, 5u, [](unsigned) { check(false); });
		check(false);
	} catch (const roam::error &error) {
		check(error.err() == ROAM_EINVAL);
	}
}

/* Of every type of numbers: wide enough for what the nodes add up to. */
void sums()
{
	const auto nodes = roam_nodes();

	check(roam::sum(1) == nodes && roam::sum(1u) == nodes && roam::sum(1LL) == nodes);
	check(roam::sum(std::int64_t{-1}) == -static_cast<std::int64_t>(nodes));
	check(roam::sum(INT32_MAX) == std::int64_t{INT32_MAX} * nodes);
	check(roam::sum(std::size_t{1} << 40) == std::size_t{nodes} << 40);
	check(roam::sum(0.5) == nodes * 0.5 && roam::sum(0.5f) == nodes * 0.5);
}

void work()
{
	const auto nodes = roam_nodes();

	check(roam::root<named>("named")->shared == shared);
	try {
		roam::root<int>("named");
		check(false);
	} catch (const roam::error &error) {
		check(error.err() == ROAM_EMISMATCH);
	}
	fill();
	roam::barrier();
	check(shared->names.size() == 50 * nodes && shared->deque.size() == 50 * nodes);
	check(shared->names.back() == "a name that is too long for the string itself");
	check(shared->order.size() == 50 && shared->set.size() == 50);
	check(shared->order.begin()->second == static_cast<int>(nodes));
	roam::barrier();
	tables();
	waits();
	roam::parallel_for(0, 1001, [](int i) { shared->marks[static_cast<std::size_t>(i)] += i; });
	for (int i = 0; i < 1001; i++)
		check(shared->marks[static_cast<std::size_t>(i)] == i);
	roam::parallel_for(5, 5, [](int) { check(false); });
	loops();
	sums();
}

} // namespace

int main(int, char **argv)
{
	shared = roam::make<all>();
	roam::root<named>("named")->shared = shared;
	roam::parallel(static_cast<unsigned>(std::atoi(argv[1])), work);
	roam::destroy(shared);
	return 0;
}
