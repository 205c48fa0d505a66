/*
 * libFuzzer: a checkpoint whose checksums are right, but whose numbers are not.  Whatever the head
 * and the chunks say, only bytes of blocks are stored, within the heap; and if nothing is refused,
 * what is stored is what the chunks have, each page once, and zero elsewhere.
 *
 * First come eight bytes that say which fields of a good head are replaced, and by what; then a
 * byte for each chunk: its kind, and where it is another one than a good writer's, its numbers.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "home/remote.h"
#include "input.h"
#include "job/job.h"
#include "save/file.h"
#include "save/store.h"

#define PAGES      64u
#define GRAIN      64u /* bytes of a bit of `live` */
#define FIELDS     (sizeof(struct roami_save_info) / 8)
#define CHUNKS_MAX 12u
#define WORDS_MAX  2048u /* of a head's private bytes that are written */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

bool roami_creator_copy(struct roami_node *node, uint32_t page, uint8_t *to)
{
	(void)node, (void)page, (void)to;
	abort(); /* nothing is saved here */
}

unsigned roami_save_heir(const struct roami_job *job, unsigned was, unsigned nodes)
{
	(void)job, (void)nodes;
	return was % 2;
}

struct bench {
	char place[40];
	struct roami_job job;
	struct roami_save_plan plan;
	uint8_t content[PAGES]; /* of each page: the byte that its last chunk has; 0: none */
	unsigned written;       /* pages of chunks */
};

static void place_remove(const char *place)
{
	static const char *const names[] = {"/1/head", "/1/pages.0", "/1/pages.1", "/current"};
	char path[64];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", place, names[i]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/1", place);
	rmdir(path);
	rmdir(place);
}

static void place_make(struct bench *bench)
{
	char path[64];

	strcpy(bench->place, "/tmp/roam-fuzz-save-XXXXXX");
	if (mkdtemp(bench->place) == NULL)
		abort();
	snprintf(path, sizeof(path), "%s/1", bench->place);
	if (mkdir(path, 0700) != 0)
		abort();
	snprintf(path, sizeof(path), "%s/current", bench->place);
	if (symlink("1", path) != 0)
		abort();
}

static void plan_make(struct bench *bench)
{
	struct roami_save_plan *plan = &bench->plan;

	bench->job.layout.pages = PAGES;
	bench->job.nodes = 2;
	bench->job.app = malloc(PAGES * ROAMI_PAGE);
	plan->job = &bench->job;
	plan->live = calloc(PAGES + 4, sizeof(uint64_t));
	if (bench->job.app == NULL || plan->live == NULL)
		abort();
	plan->used = plan->live + PAGES;
	plan->mine = plan->used + 1;
	plan->bare = plan->mine + 1;
	plan->saved = plan->bare + 1;
	memset(bench->job.app, 0xaa, PAGES * ROAMI_PAGE);
	for (uint32_t page = 0; page < PAGES; page++)
		plan->live[page] = page % 5 == 0   ? 0
				   : page % 3 == 0 ? UINT64_MAX
						   : page * 0x1234567;
	*plan->used = 0x0ff0ff0ff0ff0ff0;
	*plan->mine = *plan->used & 0x3333333333333333;
}

static struct roami_save_info head_good(void)
{
	return (struct roami_save_info){.magic = "roam save 1\n",
					.head_bytes = sizeof(struct roami_save_info),
					.state_bytes = 8,
					.threads = 2,
					.nodes = 2,
					.writers = 3,
					.page_bytes = ROAMI_PAGE};
}

static void head_write(int place, struct input *input, struct roami_save_info *info)
{
	uint64_t words[FIELDS + WORDS_MAX] = {0}, word;
	unsigned changes = input_byte(input) % 4;
	size_t count;

	for (unsigned i = 0; i < changes; i++) {
		unsigned field = 2 + input_byte(input) % (FIELDS - 2);

		input_take(input, &word, sizeof(word));
		memcpy((uint8_t *)info + field * 8, &word, sizeof(word));
	}
	count = info->threads * ((info->state_bytes + 7) / 8);
	memcpy(words, info, sizeof(*info));
	if (!roami_save_small(place, "head", words,
			      sizeof(*info) + (count < WORDS_MAX ? count : WORDS_MAX) * 8))
		abort();
}

/* A chunk of a good writer; or one with other numbers, and perhaps without its pages. */
static void chunk_write(struct bench *bench, struct input *input, struct roami_save_file *file)
{
	static uint8_t bytes[4 * ROAMI_PAGE];
	uint8_t kind = input_byte(input), pages = kind / 4 % 4 + 1;
	uint32_t first = input_byte(input) % PAGES;
	struct roami_save_head head = {0, first, pages, file->number, 0};

	pages = first + pages > PAGES ? (uint8_t)(PAGES - first) : pages;
	memset(bytes, kind | 1, sizeof(bytes));
	if (kind % 4 != 0) {
		if (!roami_save_put(file, first, pages, bytes))
			abort();
		bench->written += pages;
		memset(bench->content + first, kind | 1, pages);
		return;
	}
	input_take(input, &head.first, 12);
	head.body = roami_save_hash(bytes, pages * ROAMI_PAGE);
	head.check = roami_save_hash(&head.first, sizeof(head) - sizeof(head.check));
	if (write(file->fd, &head, sizeof(head)) < 0 ||
	    write(file->fd, bytes, pages * ROAMI_PAGE) < 0)
		abort();
	bench->written += PAGES + 1; /* so that it does not add up */
}

static void files_write(struct bench *bench, struct input *input)
{
	struct roami_save_info info = head_good();
	char path[64];
	int place;

	snprintf(path, sizeof(path), "%s/1", bench->place);
	place = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned node = 0; node < 2; node++) {
		struct roami_save_file file;
		unsigned chunks = input_byte(input) % CHUNKS_MAX;

		snprintf(path, sizeof(path), "pages.%u", node);
		if (!roami_save_create(&file, place, path))
			abort();
		for (unsigned i = 0; i < chunks; i++)
			chunk_write(bench, input, &file);
		if (!roami_save_put(&file, 0, 0, ""))
			abort();
		roami_save_close(&file);
	}
	info.pages = bench->written;
	head_write(place, input, &info);
	close(place);
}

/* A grain of a page is a block's and stored, a block's, or nobody's. */
static void grain_check(const struct bench *bench, uint32_t page, unsigned grain, bool all)
{
	const uint8_t *is = bench->job.app + page * ROAMI_PAGE + grain * GRAIN;
	bool live = (bench->plan.live[page] >> grain & 1) != 0;
	bool stored = live && roami_save_bit(bench->plan.mine, page);
	uint8_t wanted[GRAIN];

	memset(wanted, stored ? bench->content[page] : 0xaa, GRAIN);
	if ((all || !live) && memcmp(is, wanted, GRAIN) != 0)
		abort();
}

/* Whatever was said of them, only blocks' bytes have changed; all as wanted, if `all`. */
static void heap_check(const struct bench *bench, bool all)
{
	for (uint32_t page = 0; page < PAGES; page++)
		for (unsigned grain = 0; grain < 64; grain++)
			grain_check(bench, page, grain, all);
}

static void load(struct bench *bench)
{
	struct roami_save_store store = ROAMI_SAVE_STORE_NONE;
	struct roami_save_info info;
	uint64_t *states;
	enum roam_err err = roami_load_begin(&store, bench->place, &info, &states);

	if (err == ROAM_OK) /* as api/save.c reads the last thread's */
		free(memcpy(malloc(8 * (roami_save_state_words(&info) + 1)),
			    states + (info.threads - 1) * roami_save_state_words(&info),
			    8 * roami_save_state_words(&info)));
	if (err == ROAM_OK)
		err = roami_load_verify(&store, &bench->plan, &info, 0, 1);
	if (err == ROAM_OK)
		err = roami_load_share(&store, &bench->plan, &info);
	if (err != ROAM_OK && store.why[0] == '\0')
		abort(); /* for no reason */
	heap_check(bench, false);
	if (err == ROAM_OK)
		err = roami_load_pages(&store, &bench->plan, &info);
	heap_check(bench, err == ROAM_OK && info.writers == 3);
	roami_save_leave(&store);
	free(states);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct input input = {data, size};

	if (bench == NULL)
		abort();
	place_make(bench);
	plan_make(bench);
	files_write(bench, &input);
	load(bench);
	place_remove(bench->place);
	free(bench->plan.live);
	free(bench->job.app);
	free(bench);
	return 0;
}
