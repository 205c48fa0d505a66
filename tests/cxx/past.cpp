/*
 * roam/pastset.hpp: every kind of field there and back, orders, limits of time, cancelling, errors,
 * X-functions, and that the bytes are those that C sees.  Under roam run, any number of nodes.
 */
#include "check.hpp"

#include <thread>

using namespace std::chrono_literals;

enum class colour : std::uint16_t { red = 1, green = 40000 };

static std::string own(const char *what)
{
	return what + std::to_string(roam_node());
}

static void texts()
{
	using nested = std::array<std::vector<std::pair<std::string, float>>, 2>;

	check((roam::element<std::int8_t, std::uint64_t, double>::text() == "i8,u64,f64"));
	check((roam::element<colour, std::array<std::int32_t, 3>>::text() == "u16,i32[3]"));
	check((roam::element<std::string, std::vector<float>>::text() == "u8[],f32[]"));
	check(roam::element<nested>::text() == "((u8[],f32)[])[2]");
	check((roam::element<std::array<std::array<double, 4>, 3>>::text() == "(f64[4])[3]"));
}

static void kinds()
{
	using nested = std::vector<std::tuple<std::string, std::array<std::int16_t, 2>>>;
	roam::element<colour, std::string, std::array<double, 3>, nested> all(own("kinds"));
	nested records = {{"first", {-1, 2}}, {"", {3, -4}}};
	std::array<double, 3> place = {0.5, -1, 1e300};
	std::string bytes("a\0b", 3);

	check(all.move(colour::green, bytes, place, records) == 1);
	check(all.move({colour::red, "", place, {}}) == 2);
	auto [hue, name, where, list] = all.observe();
	check(hue == colour::green && name == bytes && where == place && list == records);
	auto got = all.observe(roam::number(2));
	check(got.number == 2 && std::get<0>(got) == colour::red && std::get<3>(got).empty());
	check(std::get<1>(got).empty());
	check(all.state().last == 2 && all.node() < roam_nodes());
}

/* The bytes are those of a packed struct. */
static void bytes()
{
	roam::element<std::uint8_t, std::int32_t, std::string> mixed(own("bytes"));
	const std::uint8_t wanted[] = {9, 0xfe, 0xff, 0xff, 0xff, 2, 0, 0, 0, 'h', 'i'};
	std::uint8_t got[32];
	std::size_t count = 0;

	mixed.move(9, -2, "hi");
	check(roam_ps_observe(mixed.c(), got, sizeof(got), &count) == ROAM_OK);
	check(count == sizeof(wanted) && std::memcmp(got, wanted, count) == 0);
}

static void orders()
{
	roam::element<std::uint64_t> numbers(own("orders"), roam::options().here());

	check(numbers.node() == roam_node());
	for (std::uint64_t i = 1; i <= 5; i++)
		numbers.move(i * i);
	check(std::get<0>(numbers.observe(roam::newest().peek())) == 25);
	check(std::get<0>(numbers.observe(roam::oldest())) == 1);
	check(std::get<0>(numbers.observe(roam::after(2))) == 9);
	check(numbers.state().first == 2);
	check(std::get<0>(numbers.observe(roam::newest().skip())) == 25);
	check(numbers.state().first == 6);
	numbers.truncate(4);
	auto survivor = numbers.observe(roam::after(1));
	check(survivor.skipped && survivor.number == 4);
	fails(ROAM_EGONE, [&] { numbers.observe(roam::number(3)); });
	numbers.truncate();
	check(numbers.state().oldest == 6 && numbers.state().last == 5);
}

static void times()
{
	roam::element<std::int32_t> one(own("times"), roam::options().delta(1));
	roam::element<std::string> other(own("other times")), none(own("no times"));
	auto begun = std::chrono::steady_clock::now();

	check(!one.try_observe() && !one.observe_for(20ms));
	check(std::chrono::steady_clock::now() - begun >= 20ms);
	check(one.try_move(1) && !one.try_move(2) && !one.move_for(1ms, 2) && !one.move_for(-1s, 2));
	one.delta(2);
	check(one.move_for(10s, 2) == 2u);
	check(fails(ROAM_ETIMEDOUT, [&] { one.mob_for(5ms, other, 3); }).moved() == 0);
	check(fails(ROAM_ETIMEDOUT, [&] { other.mob_for(5ms, none, "7"); }).moved() == 1);
	auto got = other.mob(one, "8");
	check(std::get<0>(got) == 1 && got.number == 1 && got.moved == 2);
	check(std::get<0>(other.mob("9")) == "7");
}

static void cancelling()
{
	roam::element<std::int32_t> empty(own("cancelling"));
	roam::canceller stop;
	std::thread other([&] { std::this_thread::sleep_for(10ms); stop.cancel(); });

	empty.cancelled_by(&stop);
	fails(ROAM_ECANCELED, [&] { empty.observe(); });
	other.join();
	empty.cancelled_by(nullptr);
	check(!empty.try_observe() && empty.move(5) == 1);
}

static void errors()
{
	roam::element<std::int32_t> whole(own("errors"));
	std::string name = own("errors");
	std::vector<double> long_one(ROAM_PS_TUPLE_MAX / sizeof(double));

	auto other = fails(ROAM_EMISMATCH, [&] { roam::element<float> wrong(name); });
	check(std::string(other.what()).find("has the template i32, not f32") != std::string::npos);
	fails(ROAM_EINVAL, [&] { roam::element<float> wrong("errors2", roam::options().on(99)); });
	fails(ROAM_EUNKNOWN,
	      [] { roam::element<float> wrong("errors3", roam::options().function("mean", 2)); });
	roam::element<std::vector<double>> numbers(own("long"));
	fails(ROAM_ETOOBIG, [&] { numbers.move(long_one); });
	long_one.pop_back();
	numbers.move(long_one);
	check(std::get<0>(numbers.observe()) == long_one);
	fails(ROAM_EINVAL, [&] { whole.delta(0); });
}

/* Patterns choose among what waits, and wait for what comes. */
static void patterns()
{
	roam::element<std::uint32_t, std::string> some(own("match"), roam::options().function("match"));

	for (unsigned i = 0; i < 6; i++)
		some.move(i % 2, std::to_string(i));
	check(std::get<1>(some.observe_like(1, 1, "")) == "1");
	check(some.observe_like(2, 0, "4").number == 5);
	check(!some.try_observe_like(3, 0, "3"));
	check(!some.observe_like_for(5ms, 3, 0, "3"));
	std::thread mover([&some] { some.move(7, "late"); });
	auto [number, text] = *some.observe_like_for(20s, 1, 7, "");
	mover.join();
	check(number == 7 && text == "late");
	check(std::get<1>(some.observe()) == "0");
	roam::element<int> plain(own("plain"));
	fails(ROAM_EINVAL, [&] { plain.try_observe_like(1, 1); });
}

/* As a program that is attached to this node. */
static void served()
{
	char place[] = "/tmp/roam-cxx-XXXXXX";
	check(mkdtemp(place) != nullptr);
	std::string key = std::string(place) + "/key", path = std::string(place) + "/socket";
	std::string at = roam::serve(path, key);
	check(at == path);
	fails(ROAM_ESTATE, [&] { roam::serve(path, key); });
	{
		roam::server there(at, key);
		roam::element<int> mine(own("served")), his(there, own("served"));

		his.move(7);
		check(std::get<0>(mine.observe()) == 7 && his.node() == mine.node());
		unsigned nodes = roam_nodes();
		check(roam::element<int>(there, own("here"), roam::options().here()).node() ==
		      roam_node());
		for (unsigned node = 0; node < nodes; node++)
			check(roam::element<int>(there, own(("on " + std::to_string(node)).c_str()),
						 roam::options().on(node))
				      .node() == node);
		std::string why = fails(ROAM_EINVAL, [&] {
					  roam::element<int>(there, "on", roam::options().on(nodes));
				  }).what();
		check(why.find("there is no node") != std::string::npos);
	}
	check(remove(key.c_str()) == 0 && remove(path.c_str()) == 0 && remove(place) == 0);
}

/* Each node with each other one; bindings move from hand to hand. */
static void together()
{
	auto sum = roam::options().function("sum", roam_nodes());
	roam::element<std::int64_t, std::array<double, 2>> made("sum", sum);
	auto total = std::move(made);
	roam::element<std::uint32_t, std::string> bag("bag", roam::options().delta(3).forget());
	std::uint64_t taken = 0;

	for (std::int64_t round = 1; round <= 200; round++) {
		auto [whole, halves] = total.mob(round, {0.5, static_cast<double>(roam_node())});
		double nodes = roam_nodes();

		check(whole == round * roam_nodes() && halves[0] == nodes / 2);
		check(halves[1] == nodes * (nodes - 1) / 2);
	}
	std::thread mover([&bag] {
		for (unsigned i = 1; i <= 300; i++)
			bag.move(i, std::string(i, 'x'));
	});
	for (unsigned i = 0; i < 300; i++) {
		auto [number, text] = bag.observe();

		check(text.size() == number && text.find_first_not_of('x') == std::string::npos);
		taken += number;
	}
	mover.join();
	auto all = total.mob(static_cast<std::int64_t>(taken), {});
	check(std::get<0>(all) == static_cast<std::int64_t>(roam_nodes()) * 300 * 301 / 2);
}

int main()
{
	texts();
	fails(ROAM_EINVAL, [] { roam::element<int> wrong(""); });
	check(roam_barrier_all() == ROAM_OK);
	kinds();
	bytes();
	orders();
	times();
	cancelling();
	errors();
	patterns();
	served();
	together();
	std::printf("node %u ended in order\n", roam_node());
	return roam_finish();
}
