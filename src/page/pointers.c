#include "page/pointers.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/os.h"
#include "page/page.h"
#include "page/race.h"

#define RANGES_MAX  1024u
#define REPORTS_MAX 20u
#define LOOK_NS     1000000u /* between two looks at what is mapped */
#define LINE_BYTES  160u
#define WORD        sizeof(uint64_t)
/* A larger mapping is most likely a table of the library's own. */
#define PIECE_MAX   (UINT64_C(1) << 30)
/* Smaller words are more often numbers; glibc's blocks can be told by their headers. */
#define NUMBERS_END (UINT64_C(1) << 32)

enum private_kind { PRIVATE_HEAP, PRIVATE_STACK, PRIVATE_OTHER };

struct private_range {
	uintptr_t first, end;
	enum private_kind kind;
};

struct roami_pointers {
	struct roami_spin lock;
	bool in_chunks; /* malloc is glibc's */
	uint64_t looked_ns;
	uint32_t count;
	struct private_range ranges[RANGES_MAX];
	uint32_t reported_count;
	uint64_t reported[REPORTS_MAX]; /* blocks, or pages of none */
};

static struct roami_pointers *pointers_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_POINTERS].state;
}

/* ------------------------------------------------------------------------------ what is private */

/* Reads a number in hexadecimal digits, and moves *at behind it. */
static uintptr_t hex_read(const char **at)
{
	static const char digits[] = "0123456789abcdef";
	uintptr_t value = 0;
	const char *digit;

	while (**at != '\0' && (digit = strchr(digits, **at)) != NULL) {
		value = value << 4 | (uintptr_t)(digit - digits);
		(*at)++;
	}
	return value;
}

/* One line of /proc/self/maps: "7f00-7f01 rw-p 00000000 00:00 0    [heap]". */
static void range_read(struct roami_pointers *pointers, const char *line)
{
	struct private_range range = {.kind = PRIVATE_OTHER};
	const char *name, *at = line;

	range.first = hex_read(&at);
	at += *at == '-';
	range.end = hex_read(&at);
	if (strncmp(at, " rw-p ", 6) != 0 || strchr(at, '/') != NULL ||
	    pointers->count == RANGES_MAX)
		return;
	name = strchr(at, '[');
	if (name != NULL && strncmp(name, "[heap]", 6) == 0)
		range.kind = PRIVATE_HEAP;
	else if (name != NULL && strncmp(name, "[stack", 6) == 0)
		range.kind = PRIVATE_STACK;
	else if ((name != NULL && strncmp(name, "[anon", 5) != 0) ||
		 range.end - range.first > PIECE_MAX)
		return;
	pointers->ranges[pointers->count++] = range;
}

/* Reads what is mapped now.  Also called in handlers. */
static void ranges_read(struct roami_pointers *pointers)
{
	int fd = roami_os_fd(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
	char bytes[2048], line[LINE_BYTES];
	size_t used = 0;
	ssize_t got;

	pointers->count = 0;
	while (fd >= 0 && (got = read(fd, bytes, sizeof(bytes))) > 0)
		for (ssize_t i = 0; i < got; i++) {
			if (bytes[i] != '\n') {
				line[used] = bytes[i];
				used += used < sizeof(line) - 1;
				continue;
			}
			line[used] = '\0';
			range_read(pointers, line);
			used = 0;
		}
	if (fd >= 0)
		close(fd);
	pointers->looked_ns = roami_os_now_ns();
}

static const struct private_range *range_find(const struct roami_pointers *pointers,
					      uintptr_t value)
{
	uint32_t low = 0, high = pointers->count; /* the kernel lists them by address */

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (value < pointers->ranges[middle].first)
			high = middle;
		else if (value >= pointers->ranges[middle].end)
			low = middle + 1;
		else
			return &pointers->ranges[middle];
	}
	return NULL;
}

/* Whether a loaded object, a program or library, has a variable at *arg. */
static int static_is(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	const uintptr_t *value = arg;

	(void)bytes;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *head = &info->dlpi_phdr[i];

		if (head->p_type == PT_LOAD &&
		    *value - ((uintptr_t)info->dlpi_addr + head->p_vaddr) < head->p_memsz)
			return 1;
	}
	return 0;
}

/* Whether a block of glibc's malloc begins there: its size lies before it, and before the next. */
static bool chunk_is(uintptr_t value, uintptr_t first, uintptr_t end)
{
	uint64_t size, next;

	if (value % 16 != 0 || value - first < 2 * WORD)
		return false;
	memcpy(&size, (const void *)(value - WORD), sizeof(size)); /* NOLINT: an address */
	size &= ~UINT64_C(7);
	if (size < 4 * WORD || size % 16 != 0 || size > end - value)
		return false;
	memcpy(&next, (const void *)(value - WORD + size), sizeof(next)); /* NOLINT: an address */
	return (next & 1) != 0; /* the one before it is in use */
}

/*
 * Whether a word points into private memory.  So that few numbers look like pointers, a word must
 * be aligned as pointers to objects are, and a small one must point to a block of malloc.
 */
static bool is_private(struct roami_pointers *pointers, uintptr_t value)
{
	const struct private_range *range;

	if (value % WORD != 0)
		return false;
	range = range_find(pointers, value);
	if (range == NULL && roami_os_now_ns() - pointers->looked_ns > LOOK_NS) {
		ranges_read(pointers);
		range = range_find(pointers, value);
	}
	if (range == NULL)
		return false;
	if (value < NUMBERS_END) /* brk's end is what is there now */
		return range->kind == PRIVATE_HEAP && pointers->in_chunks &&
		       chunk_is(value, range->first, (uintptr_t)sbrk(0));
	return range->kind != PRIVATE_OTHER || dl_iterate_phdr(static_is, &value) == 0;
}

/* ------------------------------------------------------------------------------------- reports */

/* Whether this block, or this page outside of all blocks, has not been reported yet. */
static bool pointers_new(struct roami_pointers *pointers, uint64_t block)
{
	uint32_t i = 0;

	while (i < pointers->reported_count && pointers->reported[i] != block)
		i++;
	if (i < pointers->reported_count || i == REPORTS_MAX)
		return false;
	pointers->reported[pointers->reported_count++] = block;
	return true;
}

static void pointers_report(struct roami_node *node, uint64_t offset, uintptr_t value)
{
	static const char *const kinds[] = {"heap", "stack", "memory"};
	const struct private_range *range = range_find(pointers_of(node), value);
	uint64_t code = roami_race_page_code(node, (uint32_t)(offset / ROAMI_PAGE));
	char line[600], name[ROAMI_RACE_NAME_BYTES], by[ROAMI_OS_POSITION_BYTES] = "";
	int length;

	roami_contract(range != NULL);
	if (!pointers_new(pointers_of(node), roami_race_name(node, offset, name, sizeof(name))))
		return;
	ROAMI_COUNT(node->stats, private_pointers, 1);
	roami_race_code_text(node, code, by);
	length = snprintf(line, sizeof(line),
			  "roam: pointers: node %u stored %#llx at %p%s, which points into its "
			  "private %s%s%s\n",
			  node->me, (unsigned long long)value, (void *)(node->app + offset), name,
			  kinds[range->kind],
			  by[0] != '\0' ? "; it began to write this page at " : "", by);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

/* ----------------------------------------------------------------------------------- the check */

void roami_pointers_look_now(struct roami_node *node, uint32_t page, const uint8_t *diff,
			     size_t bytes)
{
	struct roami_pointers *pointers = pointers_of(node);
	const uint8_t *now = roami_page_bytes(node, page), *end = diff + bytes;
	uint64_t map, mask;

	roami_contract_owned(node, page);
	memcpy(&map, diff, sizeof(map));
	diff += sizeof(map);
	roami_spin_lock(node, &pointers->lock);
	for (; map != 0 && diff < end; map &= map - 1) {
		uint32_t line = (uint32_t)__builtin_ctzll(map) * ROAMI_DIFF_LINE_BYTES;

		memcpy(&mask, diff, sizeof(mask));
		diff += sizeof(mask) + (unsigned)__builtin_popcountll(mask);
		for (uint32_t at = line; mask != 0; mask >>= WORD, at += WORD) {
			uintptr_t value;

			memcpy(&value, now + at, sizeof(value));
			if ((mask & 0xff) != 0 && is_private(pointers, value))
				pointers_report(node, (uint64_t)page * ROAMI_PAGE + at, value);
		}
	}
	roami_spin_unlock(&pointers->lock);
}

static enum roam_err pointers_init(struct roami_node *node,
				   const struct roami_node_params *params)
{
	void *block;

	(void)params;
	if ((node->options->check & ROAMI_CHECK_POINTERS) == 0)
		return ROAM_OK;
	block = malloc(100);
	pointers_of(node)->in_chunks =
		block != NULL && (uintptr_t)block < (uintptr_t)sbrk(0) &&
		chunk_is((uintptr_t)block, (uintptr_t)block - 2 * WORD, (uintptr_t)sbrk(0));
	free(block);
	return ROAM_OK;
}

const struct roami_room roami_room_pointers = {.name = "pointers",
					       .state_size = sizeof(struct roami_pointers),
					       .init = pointers_init};
