/* roam::server: elements of `roam past serve`, whose address is the argument, by two attachments. */
#include "check.hpp"

#include <memory>
#include <thread>

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
	std::string why = fails(ROAM_EMISMATCH, [&] { roam::element<int> wrong(there, "bag"); }).what();
	check(why.find("has the template u32,u8[], not i32") != std::string::npos);
	why = fails(ROAM_EINVAL, [] { roam::server wrong("nowhere"); }).what();
	check(why.find("HOST:PORT") != std::string::npos);
	fails(ROAM_ELOST, [&] { roam::server wrong(std::string(argv[1]) + "-not"); });
	fails(ROAM_EINVAL,
	      [&] { roam::element<int> wrong(there, "paged", roam::options().in_pages()); });
	here.reset();
	fails(ROAM_ELOST, [&] { bag.move(1, "late"); });
	check(other.state().last == 300);
	std::puts("attached in order");
	return 0;
}
