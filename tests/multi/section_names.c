/*
 * Names a variable of section's library: if the program is linked to use a copy of that variable,
 * roam does not start.
 */
#include "section.h"

#include <stdio.h>

#include <roam/roam.h>

extern long section_total;

static void work(void)
{
	roam_lock(&section_total);
	section_library_add(1);
	section_total++;
	roam_unlock(&section_total);
}

int main(void)
{
	if (roam_create_all(work, 3) || roam_wait_for_end())
		return 2;
	printf("section: %s\n", section_total == 1006 ? "ok" : "FAILED");
	return section_total != 1006;
}
