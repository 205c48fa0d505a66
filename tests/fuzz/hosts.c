/*
 * libFuzzer: lists of hosts and hostfiles.  What is taken has names that are safe to hand to a
 * remote shell, and room for what is shared out; what is not says why.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "roam_hosts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
	if (!holds)
		abort();
}

static void look(struct hosts *hosts, int good)
{
	unsigned nodes = 0;

	must(good || hosts->why[0] != '\0');
	for (unsigned i = 0; good && i < hosts->count; i++) {
		const char *name = hosts->entries[i].name;

		must(name[0] != '\0' && name[0] != '-' &&
		     strpbrk(name, " ;&|$`'\"\\<>(){}*?!\n") == NULL);
		must(hosts->entries[i].slots <= 64);
	}
	if (!good || !hosts_share(hosts, 7))
		return;
	for (unsigned i = 0; i < hosts->count; i++)
		nodes += hosts->entries[i].nodes;
	must(nodes == 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hosts list = {0}, file = {0};
	char *text = malloc(size + 1);

	must(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	look(&list, hosts_parse_list(&list, text));
	look(&file, hosts_parse_file(&file, "file", text, size));
	free(text);
	return 0;
}
