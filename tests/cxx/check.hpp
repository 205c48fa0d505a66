/* What the programs over roam/pastset.hpp check with. */
#include <roam/pastset.hpp>

#include <cstdio>
#include <cstdlib>

#define check(what)                                                                  \
	do {                                                                         \
		if (!(what)) {                                                       \
			std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			std::exit(1);                                                \
		}                                                                    \
	} while (0)

/* What throws the error; the exception. */
template <class F> static roam::error fails(roam_err err, F act)
{
	try {
		act();
	} catch (const roam::error &error) {
		check(error.err() == err && error.code().category() == roam::category());
		return error;
	}
	std::fprintf(stderr, "no error, %s wanted\n", roam_strerror(err));
	std::exit(1);
}
