// Statics of C++ in the shared heap (ROAM_SHARED): of a file, a namespace, a class, a function, and one
// with a constructor.  Prints "section: ok".
#include <cstdio>

#include <roam/roam.h>

struct box {
	long n = 3;
};

class with {
public:
	static long sum;
};

ROAM_SHARED static long counter = 5;
ROAM_SHARED box made;
ROAM_SHARED long with::sum = 7;

namespace deep {
ROAM_SHARED double view[4] = {1, 2, 3, 4};
}

static bool right = true; // of each node

static void work()
{
	ROAM_SHARED static int inner = 3;

	roam_lock(&counter);
	counter++;
	made.n++;
	deep::view[1] += 1;
	with::sum++;
	inner++;
	roam_unlock(&counter);
	roam_barrier_all();
	right = inner == 6;
}

int main()
{
	if (roam_create_all(work, 3) || roam_wait_for_end())
		return 2;
	right = right && counter == 8 && made.n == 6 && deep::view[1] == 5 && with::sum == 10;
	std::printf("section: %s\n", right ? "ok" : "FAILED");
	return right ? 0 : 1;
}
