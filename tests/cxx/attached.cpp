/* roam::server: elements of `roam past serve`, whose address is the argument, by two attachments. */
#include <roam/pastset.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#define check(what)                                                                  \
	do {                                                                         \
		if (!(what)) {                                                       \
			std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			std::exit(1);                                                \
		}                                                                    \
	} while (0)

template <class F> static std::string fails(roam_err err, F act)
{
	try {
		act();
	} catch (const roam::error &error) {
		check(error.err() == err);
		return error.what();
	}
	std::fprintf(stderr, "no error, %s wanted\n", roam_strerror(err));
	std::exit(1);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	auto here = std::make_unique<roam::server>(argv[1]);
	roam::server there(argv[1], std::getenv("ROAM_PS_KEY"));
	roam::element<std::uint32_t, std::string> bag(*here, "bag", roam::options().delta(2));
	roam::element<std::uint32_t, std::string> other(there, "bag");

	std::thread mover([&bag] {
		for (unsigned i = 1; i <= 300; i++)
			check(bag.move(i, std::string(i, 'x')) == i);
	});
	for (unsigned i = 1; i <= 300; i++) {
		auto [number, text] = other.observe();

		check(number == i && text == std::string(i, 'x'));
	}
	mover.join();
	roam::element<int> pair(*here, "pair"), observed(*here, "observed");
	observed.move(5);
	check(std::get<0>(pair.mob(observed, 4)) == 5 && pair.state().last == 1);
	check(fails(ROAM_EMISMATCH, [&] { roam::element<int> wrong(there, "bag"); })
		      .find("has the template u32,u8[], not i32") != std::string::npos);
	check(fails(ROAM_EINVAL, [] { roam::server wrong("nowhere"); }).find("HOST:PORT") !=
	      std::string::npos);
	fails(ROAM_ELOST, [&] { roam::server wrong(std::string(argv[1]) + "-not"); });
	fails(ROAM_EINVAL,
	      [&] { roam::element<int> wrong(there, "paged", roam::options().in_pages()); });
	here.reset();
	fails(ROAM_ELOST, [&] { bag.move(1, "late"); });
	check(other.state().last == 300);
	std::puts("attached in order");
	return 0;
}
