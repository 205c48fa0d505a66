/*
 * The program that a process runs, and the addresses at which it lies, which must be the same on
 * all nodes of a job.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/node.h"
#include "job/job.h"
#include "launch/control.h"
#include "os/os.h"

static uint64_t build_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static uint64_t build_bytes(const void *data, size_t bytes)
{
	uint64_t hash = bytes, word;
	const uint8_t *at = data;

	for (; bytes >= sizeof(word); at += sizeof(word), bytes -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = build_mix(hash, word);
	}
	word = 0;
	memcpy(&word, at, bytes);
	return build_mix(hash, word);
}

/* Of a file's bytes; 0: it cannot be read. */
static uint64_t build_file(const char *path)
{
	int fd = roami_os_fd(open(path, O_RDONLY | O_CLOEXEC));
	struct stat status;
	uint64_t hash = 0;
	void *data;

	if (fd < 0)
		return 0;
	if (fstat(fd, &status) == 0 && status.st_size > 0) {
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (data != MAP_FAILED) {
			hash = build_bytes(data, (size_t)status.st_size);
			munmap(data, (size_t)status.st_size);
		}
	}
	close(fd);
	return hash;
}

static int build_first(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_addr;
	return 1; /* the program is the first */
}

/*
 * Whether this library was loaded while the program ran, as Python does: what the program had
 * mapped before is not alike in all processes.  No address in the library has a meaning for other
 * nodes, and only heap addresses name objects there, so it may lie anywhere; not if other libraries
 * have variables in the heap, whose addresses must be alike.
 */
static bool build_late(const struct roami_job *job, const char *file)
{
	const char *name = strrchr(file, '/');

	return name != NULL && strncmp(name, "/libroam-late.", 14) == 0 && job->shared.found == 0;
}

void roami_build_card(const struct roami_job *job, struct roami_boot_card *card)
{
	uint64_t base = 0;
	Dl_info library;
	char value[ROAMI_OPTION_OUTPUT_MAX + 64];
	struct roami_option option;

	dl_iterate_phdr(build_first, &base);
	card->program = build_file("/proc/self/exe");
	/* Any function of libroam shows where the library, or this part of it, is loaded. */
	card->load = build_mix(base, (uintptr_t)roami_build_card);
	if (dladdr((void *)(uintptr_t)roami_build_card, &library) != 0 &&
	    (uintptr_t)library.dli_fbase != base && strchr(library.dli_fname, '/') != NULL) {
		card->library = build_file(library.dli_fname);
		if (build_late(job, library.dli_fname))
			card->load = build_mix(base, 0);
	}
	card->options_count = 0;
	for (unsigned i = 0; roami_option_at(i, &option); i++) {
		roami_assert(card->options_count < ROAMI_CARD_OPTIONS);
		roami_option_show(&option, &job->options, value, sizeof(value));
		card->options[card->options_count++] =
			option.internal ? 0 : (uint32_t)build_bytes(value, strlen(value));
	}
}

/* The option in which two nodes differ; NULL: none. */
static const char *build_option(const struct roami_boot_card *a, const struct roami_boot_card *b)
{
	struct roami_option option;

	for (unsigned i = 0; i < ROAMI_CARD_OPTIONS && roami_option_at(i, &option); i++)
		if (a->options[i] != b->options[i])
			return option.variable;
	return NULL;
}

static const char *build_differs(const struct roami_boot_card *a, const struct roami_boot_card *b,
				 const char **fix_p)
{
	*fix_p = "copy it to all hosts";
	if (a->program != b->program)
		return "runs another program";
	*fix_p = "install one version on all hosts";
	if (a->library != b->library || a->options_count != b->options_count)
		return "uses another libroam";
	*fix_p = "set it once, for all nodes";
	if (build_option(a, b) != NULL)
		return build_option(a, b);
	*fix_p = "every node must run main alike";
	if (a->asked != b->asked && b->asked != ROAMI_ASKED_UNKNOWN)
		return "asks for another number of nodes";
	if (a->allocs != b->allocs)
		return "has allocated other blocks before CREATE";
	*fix_p = "link it with -no-pie";
	return a->load != b->load ? "is loaded at another address" : NULL;
}

const char *roami_build_differs(const struct roami_boot_card *first,
				const struct roami_boot_card *node, char *what, size_t bytes)
{
	const char *fix, *found = build_differs(first, node, &fix);

	if (found == NULL)
		return NULL;
	snprintf(what, bytes, "%s%s", strncmp(found, "ROAM_", 5) == 0 ? "has another " : "", found);
	return fix;
}
