/* A library of section, with a static in the heap. */
#include "section.h"

#include <roam/roam.h>

ROAM_SHARED long section_total = 1000;

__attribute__((visibility("default"))) long section_library_add(long n)
{
	section_total += n;
	return section_total;
}
