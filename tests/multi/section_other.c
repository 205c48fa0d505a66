/* The second file of section, with statics of its own in the heap. */
#include "section.h"

#include <roam/roam.h>

ROAM_SHARED static long count = 70;
ROAM_SHARED const char *name = "other"; /* a pointer into the program */
static long added; /* private */

long section_other_add(long n)
{
	count += n;
	added += n;
	return count;
}

const char *section_other_name(void)
{
	return name;
}

void section_reset(void)
{
	added = 0;
}
