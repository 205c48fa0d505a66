#include "page/race.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/region.h"
#include "fault/signals.h"
#include "msg/msg.h"
#include "os/os.h"
#include "page/outside.h"
#include "page/page.h"
#include "page/pointers.h"
#include "page/sharing.h"

#define REPORTS_MAX    20u
#define BLOCKS_MAX     (1u << 20)
#define INTERVALS_KEPT 256u
#define INTERVAL_BITS  56u
#define INTERVAL_MASK  ((UINT64_C(1) << INTERVAL_BITS) - 1)

_Static_assert(sizeof(struct roami_block) == ROAMI_BLOCK_BYTES, "as its message has it");

enum { RACE_BLOCK, RACE_SHOWN, RACE_READ }; /* messages */

struct roami_blocks {
	_Atomic uint32_t count;
	struct {
		struct roami_block block;
		_Atomic uint32_t there;
	} item[BLOCKS_MAX];
};

/* One of the two writers of a race.  The code is not among what makes races alike. */
struct race_side {
	struct roami_synced since;
	uint64_t node;
};

/* What makes two races alike: the block, the writers, and what each last synchronised on. */
struct race_report {
	uint64_t block;
	struct race_side side[2];
};

/* The synchronisation with which an interval of a writer began. */
struct race_began {
	uint64_t interval;
	struct roami_synced since;
};

struct roami_race {
	struct roami_synced last; /* of this node */
	_Atomic uint32_t held;    /* locks, by its threads */
	void (*clock)(struct roami_node *node, struct roami_vclock *clock_p);
	struct race_began began[ROAMI_NODES_MAX][INTERVALS_KEPT];
	struct roami_spin lock;
	uint32_t report_count;
	struct race_report reports[REPORTS_MAX];
};

/* A shadow word of a byte: the writer's number + 1 above, its interval below. */
static uint64_t shadow_word(unsigned writer, uint64_t interval)
{
	roami_contract(writer < ROAMI_NODES_MAX);
	return ((uint64_t)writer + 1) << INTERVAL_BITS | (interval & INTERVAL_MASK);
}

static size_t codes_bytes(const struct roami_node *node)
{
	return (size_t)node->layout.pages * ROAMI_NODES_MAX * sizeof(uint64_t);
}

/* The first object is the program. */
static int race_text(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	struct roami_races *races = arg;

	(void)bytes;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *head = &info->dlpi_phdr[i];

		if (head->p_type != PT_LOAD || (head->p_flags & PF_X) == 0)
			continue;
		races->text = (uintptr_t)info->dlpi_addr + head->p_vaddr;
		races->text_end = races->text + head->p_memsz;
	}
	return 1;
}

static uint64_t code_pack(const struct roami_node *node, uintptr_t code)
{
	const struct roami_races *races = races_of(node);

	return code - races->text < races->text_end - races->text ? code - races->text + 1 : 0;
}

uint64_t roami_race_code(const struct roami_node *node, const void *code)
{
	return code_pack(node, (uintptr_t)code);
}

void roami_race_code_text(const struct roami_node *node, uint64_t code,
			  char text[ROAMI_OS_POSITION_BYTES])
{
	text[0] = '\0';
	code &= ~ROAMI_OUTSIDE_CODE;
	if (code == 0 || code > races_of(node)->text_end - races_of(node)->text)
		return;
	roami_os_position((const void *)(races_of(node)->text + code - 1), text); /* NOLINT */
}

static size_t shadow_bytes(const struct roami_node *node)
{
	return (size_t)node->layout.pages * ROAMI_PAGE * sizeof(uint64_t);
}

static enum roam_err race_init(struct roami_node *node, const struct roami_node_params *params)
{
	struct roami_races *races = races_of(node);

	(void)params;
	if ((node->options->check & ROAMI_CHECK_BLOCKS) != 0)
		dl_iterate_phdr(race_text, races);
	if (!roami_race_checked(node))
		return ROAM_OK;
	races->shadow = roami_os_reserve_sparse(shadow_bytes(node));
	races->race = roami_os_reserve_sparse(sizeof(*races->race));
	races->written = roami_os_reserve_sparse((size_t)node->layout.pages * sizeof(uint64_t));
	races->codes = roami_os_reserve_sparse(codes_bytes(node));
	return races->shadow == NULL || races->race == NULL || races->written == NULL ||
			       races->codes == NULL
		       ? ROAM_ENOMEM
		       : roami_outside_init(node);
}

static void race_fini(struct roami_node *node)
{
	struct roami_races *races = races_of(node);

	roami_os_unmap(races->shadow, shadow_bytes(node));
	roami_outside_fini(node);
	roami_os_unmap(races->race, sizeof(*races->race));
	roami_os_unmap(races->written, (size_t)node->layout.pages * sizeof(uint64_t));
	roami_os_unmap(races->codes, codes_bytes(node));
	roami_os_unmap(races->blocks, sizeof(*races->blocks));
}

/* -------------------------------------------------------------------------------------- blocks */

/*
 * Lists a block.  The newest one at an address counts: blocks freed since stand before it in the
 * list.
 */
static void block_keep(struct roami_node *node, const struct roami_block *block)
{
	uint32_t index;

	if (races_of(node)->blocks == NULL)
		races_of(node)->blocks = roami_os_reserve_sparse(sizeof(*races_of(node)->blocks));
	if (races_of(node)->blocks == NULL)
		return;
	index = atomic_fetch_add(&races_of(node)->blocks->count, 1);
	if (index >= BLOCKS_MAX)
		return;
	memcpy(&races_of(node)->blocks->item[index].block, block, sizeof(*block));
	atomic_store(&races_of(node)->blocks->item[index].there, 1);
}

uint32_t roami_race_blocks(const struct roami_node *node)
{
	uint32_t count =
		races_of(node)->blocks != NULL ? atomic_load(&races_of(node)->blocks->count) : 0;

	return count < BLOCKS_MAX ? count : BLOCKS_MAX;
}

const struct roami_block *roami_race_block_at(const struct roami_node *node, uint32_t index)
{
	roami_assert(index < roami_race_blocks(node));
	return atomic_load(&races_of(node)->blocks->item[index].there)
		       ? &races_of(node)->blocks->item[index].block
		       : NULL;
}

static void block_put(FILE *file, const struct roami_node *node, const struct roami_block *block)
{
	char code[ROAMI_OS_POSITION_BYTES];

	roami_race_code_text(node, block->code, code);
	fprintf(file, "block\t%llu\t%llu\t%s\t%s\n", (unsigned long long)block->offset,
		(unsigned long long)block->bytes, code, block->name);
}

FILE *roami_race_file(const struct roami_node *node, const char *option, const char *path)
{
	char own[ROAMI_OPTION_OUTPUT_MAX + 16];
	FILE *file;
	int fd;

	snprintf(own, sizeof(own), "%s.%u", path, node->me);
	fd = roami_os_fd(open(own, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
	file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (file == NULL) {
		fprintf(stderr, "roam: %s=%s: %s\n", option, own, strerror(errno));
		return NULL;
	}
	fprintf(file, "node\t%u\t%u\n", node->me, node->nodes);
	for (uint32_t i = 0; i < roami_race_blocks(node); i++) {
		const struct roami_block *block = roami_race_block_at(node, i);

		if (block != NULL)
			block_put(file, node, block);
	}
	return file;
}

static const struct roami_block *block_find(const struct roami_node *node, uint64_t offset)
{
	for (uint32_t i = roami_race_blocks(node); i-- > 0;) {
		const struct roami_block *block = roami_race_block_at(node, i);

		if (block != NULL && offset >= block->offset &&
		    offset - block->offset < block->bytes)
			return block;
	}
	return NULL;
}

void roami_race_block(struct roami_node *node, uint64_t offset, uint64_t bytes, const char *name,
		      const void *from, bool tell)
{
	struct roami_block block = {.offset = offset, .bytes = bytes};
	struct roam_part part = {&block, sizeof(block)};
	size_t length = name != NULL ? strlen(name) : 0, skip;

	roami_assert(offset < node->layout.heap_bytes);
	if ((node->options->check & ROAMI_CHECK_BLOCKS) == 0)
		return;
	block.code = roami_race_code(node, from);
	skip = length < sizeof(block.name) ? 0 : length + 1 - sizeof(block.name);
	if (name != NULL)
		memcpy(block.name, name + skip, length - skip);
	block_keep(node, &block);
	for (unsigned i = 0; i < node->nodes && tell; i++)
		if (i != node->me)
			roami_msg_call(node, i, roami_type(node, ROAMI_ROOM_RACE, RACE_BLOCK),
				       &part, 1, NULL, 0);
}

static void block_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_block block;

	if (request->bytes != sizeof(block))
		roami_node_fail(node, "node %u: malformed description of a block", request->from);
	memcpy(&block, request->data, sizeof(block));
	block.name[sizeof(block.name) - 1] = '\0';
	block_keep(node, &block);
	roami_reply(node, request, NULL, 0);
}

/* ----------------------------------------------------------------------------- synchronisation */

void roami_race_synced_now(struct roami_node *node, enum roami_synced_kind kind, uint64_t object)
{
	roami_contract(kind < ROAMI_SYNCED_KINDS && races_of(node)->race != NULL);
	__atomic_store_n(&races_of(node)->race->last.object, object, __ATOMIC_RELAXED);
	__atomic_store_n(&races_of(node)->race->last.kind, (uint64_t)kind, __ATOMIC_RELAXED);
	if (kind == ROAMI_SYNCED_LOCK)
		atomic_fetch_add(&races_of(node)->race->held, 1);
	else if (kind == ROAMI_SYNCED_UNLOCK)
		atomic_fetch_sub(&races_of(node)->race->held, 1);
	else if (kind != ROAMI_SYNCED_COND && kind != ROAMI_SYNCED_SET)
		roami_outside_shown(node);
}

/* Whether this node writes outside of any section; not known before it has synchronised. */
static bool race_outside(const struct roami_node *node)
{
	const struct roami_race *race = races_of(node)->race;

	return atomic_load(&race->held) == 0 &&
	       __atomic_load_n(&race->last.kind, __ATOMIC_RELAXED) != ROAMI_SYNCED_NOT;
}

void roami_race_clock_by(struct roami_node *node,
			 void (*clock)(struct roami_node *node, struct roami_vclock *clock_p))
{
	roami_assert(clock != NULL);
	if (races_of(node)->race != NULL)
		races_of(node)->race->clock = clock;
}

void roami_race_clock(struct roami_node *node, struct roami_vclock *clock_p)
{
	roami_assert(races_of(node)->race != NULL);
	races_of(node)->race->clock(node, clock_p);
}

struct roami_synced roami_race_since(struct roami_node *node)
{
	roami_assert(races_of(node)->race != NULL);
	return (struct roami_synced){
		__atomic_load_n(&races_of(node)->race->last.object, __ATOMIC_RELAXED),
		__atomic_load_n(&races_of(node)->race->last.kind, __ATOMIC_RELAXED)};
}

void roami_race_wrote_now(struct roami_node *node, uint32_t page)
{
	struct roami_races *races = races_of(node);
	uint64_t code;

	roami_contract(page < node->layout.pages);
	code = code_pack(node, roami_signals_code(races->text, races->text_end));
	if (race_outside(node))
		code |= ROAMI_OUTSIDE_CODE;
	__atomic_store_n(&races->written[page], code, __ATOMIC_RELAXED);
}

unsigned roami_race_outside_type(const struct roami_node *node)
{
	return roami_type(node, ROAMI_ROOM_RACE, RACE_READ);
}

uint64_t roami_race_page_code(struct roami_node *node, uint32_t page)
{
	roami_assert(page < node->layout.pages && races_of(node)->written != NULL);
	return __atomic_load_n(&races_of(node)->written[page], __ATOMIC_RELAXED);
}

static struct race_began *race_began(struct roami_node *node, unsigned writer, uint64_t interval)
{
	roami_assert(writer < node->nodes);
	return &races_of(node)->race->began[writer][interval % INTERVALS_KEPT];
}

/* The synchronisation with which the writer's interval began; all 0 if it is no longer kept. */
static struct roami_synced race_since(struct roami_node *node, unsigned writer, uint64_t interval)
{
	struct race_began *began = race_began(node, writer, interval);

	return began->interval == interval ? began->since : (struct roami_synced){0};
}

/* ------------------------------------------------------------------------------------- reports */

uint64_t roami_race_name(const struct roami_node *node, uint64_t offset, char *text, size_t bytes)
{
	const struct roami_block *block = block_find(node, offset);
	char code[ROAMI_OS_POSITION_BYTES] = "", name[100] = "a block";

	roami_assert(offset < node->layout.heap_bytes && bytes > 0);
	text[0] = '\0';
	if (block != NULL)
		roami_race_code_text(node, block->code, code);
	if (block != NULL && (block->name[0] != '\0' || code[0] != '\0'))
		snprintf(name, sizeof(name), "%s%.80s", block->name[0] != '\0' ? "" : "block of ",
			 block->name[0] != '\0' ? block->name : code);
	if (block != NULL)
		snprintf(text, bytes, " (%s + %#llx, of %llu bytes from %p)", name,
			 (unsigned long long)(offset - block->offset),
			 (unsigned long long)block->bytes, (void *)(node->app + block->offset));
	return block != NULL ? block->offset : offset / ROAMI_PAGE * ROAMI_PAGE;
}

static void race_side(const struct roami_node *node, const struct race_side *side, char *text,
		      size_t bytes)
{
	static const char *const kinds[ROAMI_SYNCED_KINDS] = {
		"before any synchronisation is known of", "since it locked", "since it unlocked",
		"since the barrier", "since the condition", "since the flag", "since the flag",
		"since a reduction"};
	uint64_t kind = side->since.kind < ROAMI_SYNCED_KINDS ? side->since.kind : 0;
	uint64_t offset = side->since.object - (uint64_t)(uintptr_t)node->app;
	char object[24] = "", name[ROAMI_RACE_NAME_BYTES] = "", code[ROAMI_OS_POSITION_BYTES];

	roami_contract(side->node < node->nodes);
	if (kind != ROAMI_SYNCED_NOT && side->since.object >= ROAMI_SYNCED_OWN)
		snprintf(object, sizeof(object), " %#llx", (unsigned long long)side->since.object);
	if (object[0] != '\0' && offset < node->layout.heap_bytes) {
		roami_race_name(node, offset, name, sizeof(name));
	} else if (object[0] != '\0') { /* a static */
		roami_os_position((const void *)side->since.object, code); /* NOLINT: an address */
		if (code[0] != '0')
			snprintf(name, sizeof(name), " (%s)", code);
	}
	snprintf(text, bytes, "node %u %s%s%s", (unsigned)side->node, kinds[kind], object, name);
}

static bool race_alike(const struct race_report *a, const struct race_report *b)
{
	return a->block == b->block && memcmp(a->side, b->side, sizeof(a->side)) == 0;
}

/* Whether the race is the first of its kind. */
static bool race_new(struct roami_node *node, const struct race_report *report)
{
	struct roami_race *race = races_of(node)->race;
	uint32_t i = 0;
	bool known;

	roami_contract(report->side[0].node <= report->side[1].node);
	roami_spin_lock(node, &race->lock);
	while (i < race->report_count && !race_alike(&race->reports[i], report))
		i++;
	known = i < race->report_count || i == REPORTS_MAX;
	if (!known)
		race->reports[race->report_count++] = *report;
	roami_spin_unlock(&race->lock);
	ROAMI_COUNT(node->stats, races, !known);
	ROAMI_COUNT(node->stats, races_alike, known);
	return !known;
}

/* "; node 0 began to write this page at prog+0x11b5 (work+0x25), node 1 at ...", or nothing. */
static void race_code(const struct roami_node *node, uint32_t page,
		      const struct race_report *report, char *text, size_t bytes)
{
	char code[2][ROAMI_OS_POSITION_BYTES];
	const uint64_t *codes = &races_of(node)->codes[(size_t)page * ROAMI_NODES_MAX];

	roami_contract(bytes > 0);
	text[0] = '\0';
	for (unsigned i = 0; i < 2; i++) {
		roami_race_code_text(node, codes[report->side[i].node], code[i]);
		if (code[i][0] == '\0')
			return;
	}
	snprintf(text, bytes, "; node %u began to write this page at %s, node %u at %s",
		 (unsigned)report->side[0].node, code[0], (unsigned)report->side[1].node, code[1]);
}

static void race_report(struct roami_node *node, uint64_t offset, const struct race_side *first,
			const struct race_side *second)
{
	const struct roami_block *block = block_find(node, offset);
	struct race_report report;
	char line[1600], name[ROAMI_RACE_NAME_BYTES], sides[2][360], code[400];
	bool turned = first->node > second->node; /* alike, whichever wrote first */
	int length;

	roami_contract(first->node != second->node);
	memset(&report, 0, sizeof(report));
	report.block = block != NULL ? block->offset : UINT64_MAX;
	report.side[turned] = *first;
	report.side[!turned] = *second;
	if ((node->options->check & ROAMI_CHECK_RACE) == 0 || !race_new(node, &report))
		return;
	roami_race_name(node, offset, name, sizeof(name));
	for (unsigned i = 0; i < 2; i++)
		race_side(node, &report.side[i], sides[i], sizeof(sides[i]));
	race_code(node, (uint32_t)(offset / ROAMI_PAGE), &report, code, sizeof(code));
	length = snprintf(line, sizeof(line),
			  "roam: race: %p%s was written by %s and by %s, in intervals that nothing "
			  "orders%s\n",
			  (void *)(node->app + offset), name, sides[0], sides[1], code);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

void roami_check_verdict(const char *check, uint64_t found, uint64_t alike, int fd)
{
	if (found == 0)
		dprintf(fd, "roam: %s: none found\n", check);
	else if (alike == 0)
		dprintf(fd, "roam: %s: %llu found\n", check, (unsigned long long)found);
	else
		dprintf(fd, "roam: %s: %llu found, and %llu like them\n", check,
			(unsigned long long)found, (unsigned long long)alike);
}

/* --------------------------------------------------------------------------------------- notes */

/* Notes one changed byte; returns whether it was written in a race. */
static bool race_byte(struct roami_node *node, uint32_t page, uint32_t byte, unsigned writer,
		      const struct roami_vclock *clock)
{
	uint64_t *word = &races_of(node)->shadow[(size_t)page * ROAMI_PAGE + byte];
	unsigned last = (unsigned)(*word >> INTERVAL_BITS) - 1;
	bool race = *word != 0 && last != writer &&
		    (*word & INTERVAL_MASK) > (clock->at[last] & INTERVAL_MASK);

	roami_contract_locked(node, page);
	roami_contract(byte < ROAMI_PAGE && (*word == 0 || last < node->nodes));
	*word = shadow_word(writer, clock->at[writer] + 1);
	return race;
}

void roami_race_note(struct roami_node *node, uint32_t page, unsigned writer,
		     const struct roami_vclock *clock, const struct roami_synced *since,
		     uint64_t code, const uint8_t *diff, size_t bytes)
{
	uint64_t interval = (clock->at[writer] + 1) & INTERVAL_MASK;
	struct race_side second = {*since, writer}, first;
	const uint8_t *whole;
	uint64_t map, mask;
	bool in_race = false, handed = false;

	roami_contract_locked(node, page);
	if (bytes == 0)
		return;
	races_of(node)->codes[(size_t)page * ROAMI_NODES_MAX + writer] = code;
	roami_outside_wrote(node, page, writer, interval, code);
	*race_began(node, writer, interval) = (struct race_began){interval, *since};
	whole = diff;
	memcpy(&map, diff, sizeof(map));
	diff += sizeof(map);
	for (; map != 0; map &= map - 1) {
		uint32_t line = (uint32_t)__builtin_ctzll(map) * ROAMI_DIFF_LINE_BYTES;

		memcpy(&mask, diff, sizeof(mask));
		diff += sizeof(mask) + (unsigned)__builtin_popcountll(mask);
		for (; mask != 0; mask &= mask - 1) {
			uint32_t byte = line + (uint32_t)__builtin_ctzll(mask);
			uint64_t offset = (uint64_t)page * ROAMI_PAGE + byte;
			uint64_t before = races_of(node)->shadow[offset];
			bool race = race_byte(node, page, byte, writer, clock);

			handed |= before != 0 && (before >> INTERVAL_BITS) != writer + 1u;
			if (race && !in_race) { /* the first byte of a run is enough */
				first.node = (before >> INTERVAL_BITS) - 1;
				first.since = race_since(node, (unsigned)first.node,
							 before & INTERVAL_MASK);
				race_report(node, offset, &first, &second);
			}
			in_race = race;
		}
	}
	if (roami_sharing_wanted(node))
		roami_sharing_wrote(node, page, writer, whole, handed);
}

/* Whether the home shows its diffs to the page's keeper, as the other writers show theirs. */
static bool race_is_shown(struct roami_node *node, uint32_t page)
{
	return roami_homes_move(roami_region_of(node, page)->protocol);
}

void roami_race_note_home(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);
	uint8_t diff[ROAMI_DIFF_BYTES_MAX + 64];
	struct roami_synced since = roami_race_since(node);
	struct roami_vclock clock;
	bool shown = race_is_shown(node, page);
	size_t bytes;

	roami_contract_pending(node, page);
	roami_contract(roami_page_is_home(node, page));
	if (entry->twin == 0)
		return;
	roami_race_clock(node, &clock);
	/* A diff that arrives now must be in the page and in the twin, or in neither. */
	roami_page_lock(node, page);
	bytes = pages_of(node)->diff->encode(diff, roami_page_bytes(node, page),
				   roami_twin_bytes(node, entry->twin), ROAMI_PAGE);
	if (!shown) {
		roami_race_note(node, page, node->me, &clock, &since,
				roami_race_page_code(node, page), diff, bytes);
		roami_pointers_look(node, page, diff, bytes);
	}
	roami_page_unlock(node, page);
	if (shown)
		roami_diff_show(node, page, diff, bytes);
}

/* ------------------------------------------------------------------------------- diffs shown */

/* What a shown diff begins with; its writer's clock and the diff follow. */
struct race_shown {
	uint32_t page;
	uint32_t spare;
	uint64_t code;
	struct roami_synced since;
};

#define SHOWN_BYTES_MAX \
	(sizeof(struct race_shown) + ROAMI_VCLOCK_BYTES_MAX + ROAMI_DIFF_BYTES_MAX + 64)

/* The same for pages in a row, so that what is alike in a block is told once. */
#define KEPT_PAGES 512u

static unsigned race_keeper(const struct roami_node *node, uint32_t page)
{
	return page / KEPT_PAGES % node->nodes;
}

void roami_diff_show(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes)
{
	struct race_shown shown = {.page = page};
	struct roami_vclock_wire wire;
	struct roami_vclock clock;
	struct roam_part parts[3] = {{&shown, sizeof(shown)}, {&wire, 0}, {diff, bytes}};
	unsigned keeper = race_keeper(node, page);

	roami_contract_pending(node, page);
	if (!roami_race_checked(node) || !roami_region_of(node, page)->protocol->checks_races ||
	    bytes == 0)
		return;
	roami_pointers_look(node, page, diff, bytes);
	shown.code = roami_race_page_code(node, page);
	shown.since = roami_race_since(node);
	roami_race_clock(node, &clock);
	if (keeper == node->me) {
		roami_page_lock(node, page);
		roami_race_note(node, page, node->me, &clock, &shown.since, shown.code, diff,
				bytes);
		roami_page_unlock(node, page);
		return;
	}
	parts[1].bytes = roami_vclock_encode(&clock, NULL, node->nodes, &wire);
	roami_msg_call(node, keeper, roami_type(node, ROAMI_ROOM_RACE, RACE_SHOWN), parts, 3, NULL,
		       0);
}

static void shown_handle(struct roami_node *node, const struct roam_request *request)
{
	struct race_shown shown = {.page = UINT32_MAX};
	const uint8_t *at = request->data, *end = at + request->bytes;
	struct roami_vclock clock;
	size_t clock_bytes = 0;

	memset(&clock, 0, sizeof(clock));
	if (request->bytes >= sizeof(shown)) {
		memcpy(&shown, at, sizeof(shown));
		at += sizeof(shown);
		clock_bytes = roami_vclock_decode(&clock, node->nodes, at, (size_t)(end - at));
		at += clock_bytes;
	}
	if (clock_bytes == 0 || !roami_race_checked(node) || shown.page >= node->layout.pages ||
	    !roami_diff_sound(at, (size_t)(end - at)))
		roami_node_fail(node, "node %u showed a malformed diff", request->from);
	roami_page_lock(node, shown.page);
	roami_race_note(node, shown.page, request->origin, &clock, &shown.since, shown.code, at,
			(size_t)(end - at));
	roami_page_unlock(node, shown.page);
	roami_reply(node, request, NULL, 0);
}

static const struct roam_message race_messages[] = {
	[RACE_BLOCK] = {"block", block_handle, ROAMI_BLOCK_BYTES},
	[RACE_SHOWN] = {"shown", shown_handle, SHOWN_BYTES_MAX},
	[RACE_READ] = {"read", roami_outside_handle, ROAMI_OUTSIDE_BYTES_MAX},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_race = {
	.name = "race",
	.state_size = sizeof(struct roami_races),
	.messages = race_messages,
	.init = race_init,
	.fini = race_fini,
};
