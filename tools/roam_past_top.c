#include "roam_past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "roam_live.h"
#include "roam_tool.h"

#define ROWS_HEAD    3u
#define COLUMNS_WIDE 110u

/* All elements at one moment, node by node. */
struct top_sample {
	struct roami_listed head; /* the last answer's */
	struct roami_listing *entries;
	uint32_t count;
	uint32_t begin[ROAMI_NODES_MAX + 1]; /* where each node's entries begin; then the end */
};

/* An element, and its operations per second. */
struct top_row {
	const struct roami_listing *entry;
	unsigned node; /* at which it lives */
	double moves, observes;
};

/* Reads one answer; false: it is malformed. */
static bool sample_add(struct top_sample *sample, const uint8_t *answer, size_t bytes)
{
	struct roami_listing *grown;

	if (bytes < sizeof(sample->head))
		return false;
	memcpy(&sample->head, answer, sizeof(sample->head));
	if (sample->head.count > ROAMI_LISTINGS_MAX || sample->head.nodes == 0 ||
	    sample->head.nodes > ROAMI_NODES_MAX ||
	    bytes != sizeof(sample->head) + sample->head.count * sizeof(*grown))
		return false;
	grown = realloc(sample->entries, (sample->count + sample->head.count) * sizeof(*grown) + 1);
	if (grown == NULL)
		return false;
	sample->entries = grown;
	memcpy(grown + sample->count, answer + sizeof(sample->head),
	       sample->head.count * sizeof(*grown));
	for (uint32_t i = sample->count; i < sample->count + sample->head.count; i++) {
		grown[i].name[ROAM_PS_NAME_MAX] = '\0';
		grown[i].function[ROAM_PS_FUNCTION_MAX] = '\0';
	}
	sample->count += sample->head.count;
	return true;
}

/* Reads all elements of a node; `answer` has room for one answer. */
static enum roam_err sample_node(struct roam_ps_server *server, struct top_sample *sample,
				 unsigned node, struct roami_listings *answer)
{
	enum roam_err err = ROAM_OK;
	size_t got = 0;

	sample->begin[node] = sample->count;
	do {
		struct roami_list ask = {sample->count - sample->begin[node], node};
		struct roam_part part = {&ask, sizeof(ask)};

		err = roami_attach_call(server, ROAMI_GUEST_LIST, ROAMI_ANSWER_NS, &part, 1, answer,
					sizeof(*answer), &got);
		if (err == ROAM_OK && !sample_add(sample, (const uint8_t *)answer, got))
			err = ROAM_EPROTO;
		if (err == ROAM_OK && sample->head.elements == UINT32_MAX)
			err = ROAM_EAGAIN;
	} while (err == ROAM_OK && sample->head.count > 0);
	sample->begin[node + 1] = sample->count;
	return err;
}

static enum roam_err sample_take(struct roam_ps_server *server, struct top_sample *sample)
{
	struct roami_listings *answer = malloc(sizeof(*answer));
	enum roam_err err = answer == NULL ? ROAM_ENOMEM : ROAM_OK;

	memset(sample, 0, sizeof(*sample));
	sample->head.nodes = 1; /* at least: each answer tells how many nodes there are */
	for (unsigned node = 0; err == ROAM_OK && node < sample->head.nodes; node++)
		err = sample_node(server, sample, node, answer);
	free(answer);
	return err;
}

/* An element's entry in the earlier sample, by node and index; `none` if the element is new. */
static const struct roami_listing *sample_find(const struct top_sample *sample, unsigned node,
					       uint32_t at, const struct roami_listing *none)
{
	if (node >= sample->head.nodes || at >= sample->begin[node + 1] - sample->begin[node])
		return none;
	return &sample->entries[sample->begin[node] + at];
}

static int row_compare(const void *a, const void *b)
{
	const struct top_row *one = a, *two = b;
	double busy = two->moves + two->observes - one->moves - one->observes;

	return busy != 0 ? (busy > 0) - (busy < 0) : strcmp(one->entry->name, two->entry->name);
}

/*
 * Computes the rates since the sample before; sorts the busiest first.  NULL: there is no memory.
 */
static struct top_row *top_rows(const struct top_sample *before, const struct top_sample *now)
{
	double seconds = (double)(now->head.now_ns - before->head.now_ns) * 1e-9;
	struct top_row *rows = calloc(now->count + 1, sizeof(*rows));
	const struct roami_listing none = {.moves = 0};
	unsigned node = 0;

	for (uint32_t i = 0; rows != NULL && i < now->count; i++) {
		const struct roami_listing *was;

		while (i >= now->begin[node + 1])
			node++;
		was = sample_find(before, node, i - now->begin[node], &none);
		rows[i].node = node;
		rows[i].entry = &now->entries[i];
		rows[i].moves = (double)(now->entries[i].moves - was->moves) / seconds;
		rows[i].observes = (double)(now->entries[i].observes - was->observes) / seconds;
	}
	if (rows != NULL)
		qsort(rows, now->count, sizeof(*rows), row_compare);
	return rows;
}

/* -------------------------------------------------------------------------------------- as text */

/* Computes the widths of all columns but the last, which is the name. */
enum { NODE, FIRST, LAST, TUPLES, BYTES, DELTA, WAITING, MOVES, OBSERVES, COLUMNS };

static const struct {
	const char *title;
	int width;
	bool spared; /* if the terminal is narrow */
} top_columns[COLUMNS] = {
	{"NODE", 4, false},
	{"FIRST", 12, true},    {"LAST", 12, false},   {"TUPLES", 10, false},
	{"BYTES", 12, true},    {"DELTA", 10, false},  {"WAITING", 8, false},
	{"MOVES/S", 10, false}, {"OBSERVES/S", 10, false},
};

static bool column_shown(unsigned column, unsigned width, unsigned nodes)
{
	if (column == NODE)
		return nodes > 1;
	return !top_columns[column].spared || width >= COLUMNS_WIDE;
}

static void column_text(unsigned column, const struct top_row *row, char *text, size_t bytes)
{
	const struct roam_ps_state *state = &row->entry->state;
	const uint64_t whole[COLUMNS] = {[NODE] = row->node,
					 [FIRST] = state->first,
					 [LAST] = state->last,
					 [TUPLES] = state->last + 1 - state->oldest,
					 [BYTES] = state->bytes,
					 [DELTA] = state->delta,
					 [WAITING] = state->waiting};

	if (column == DELTA && state->delta == UINT64_MAX)
		snprintf(text, bytes, "-");
	else if (column == MOVES || column == OBSERVES)
		snprintf(text, bytes, "%.0f", column == MOVES ? row->moves : row->observes);
	else
		snprintf(text, bytes, "%" PRIu64, whole[column]);
}

/* Keeps unprintable bytes of a name from the terminal. */
static void text_name(const char *name, unsigned *room)
{
	for (; *name != '\0' && *room > 0; name++, --*room)
		putchar(*name >= ' ' && *name <= '~' ? *name : '?');
}

/* Makes a line of the table, no longer than the terminal; NULL makes the line of titles. */
static void text_row(const struct top_row *row, unsigned width, unsigned nodes)
{
	unsigned room = width;
	char text[32];

	for (unsigned i = 0; i < COLUMNS; i++) {
		if (!column_shown(i, width, nodes) || room <= (unsigned)top_columns[i].width)
			continue;
		snprintf(text, sizeof(text), "%s", top_columns[i].title);
		if (row != NULL)
			column_text(i, row, text, sizeof(text));
		room -= (unsigned)printf("%*s ", top_columns[i].width, text);
	}
	if (room > width) /* a number was longer than its column */
		room = 0;
	text_name(" ", &room);
	text_name(row != NULL ? row->entry->name : "ELEMENT", &room);
	if (row != NULL && row->entry->function[0] != '\0') {
		text_name(" (", &room);
		text_name(row->entry->function, &room);
		text_name(")", &room);
	}
	putchar('\n');
}

static void top_text(const struct tool_live *live, const char *address,
		     const struct top_sample *sample, const struct top_row *rows)
{
	unsigned height, width;
	char line[512];

	tool_live_size(live, &height, &width);
	if (live->on)
		printf("\033[H\033[J");
	snprintf(line, sizeof(line), "%s: %u elements, %u programs attached, %" PRIu64 " refused",
		 address, sample->count, sample->head.guests, sample->head.refused);
	text_name(line, &(unsigned){width});
	printf("\n\n");
	text_row(NULL, width, sample->head.nodes);
	for (uint32_t i = 0; i < sample->count && i + ROWS_HEAD + 1 < height; i++)
		text_row(&rows[i], width, sample->head.nodes);
}

/* -------------------------------------------------------------------------------------- as JSON */

static void json_string(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte < ' ' || byte > '~' || byte == '"' || byte == '\\')
			printf("\\u%04x", byte);
		else
			putchar(byte);
	}
	putchar('"');
}

static void json_row(const struct top_row *row)
{
	const struct roam_ps_state *state = &row->entry->state;

	printf("{\"node\": %u, \"name\": ", row->node);
	json_string(row->entry->name);
	printf(", \"function\": ");
	json_string(row->entry->function);
	printf(", \"first\": %" PRIu64 ", \"last\": %" PRIu64 ", \"oldest\": %" PRIu64
	       ", \"bytes\": %" PRIu64 ", \"delta\": ",
	       state->first, state->last, state->oldest, state->bytes);
	if (state->delta == UINT64_MAX)
		printf("null");
	else
		printf("%" PRIu64, state->delta);
	printf(", \"waiting\": %" PRIu64 ", \"moves\": %" PRIu64 ", \"observes\": %" PRIu64
	       ", \"moves_per_s\": %.1f, \"observes_per_s\": %.1f}",
	       state->waiting, row->entry->moves, row->entry->observes, row->moves, row->observes);
}

static void top_json(const struct top_sample *sample, const struct top_row *rows)
{
	printf("{\"format\": \"roam past top 1\", \"programs\": %u, \"refused\": %" PRIu64
	       ", \"elements\": [",
	       sample->head.guests, sample->head.refused);
	for (uint32_t i = 0; i < sample->count; i++) {
		if (i > 0)
			printf(", ");
		json_row(&rows[i]);
	}
	printf("]}\n");
}

/* ----------------------------------------------------------------------------------------- life */

/* Takes and shows one look; `live` while the display goes on.  false: it was the last one. */
static bool top_look(struct roam_ps_server *server, const char *address,
		     const struct top_options *options, const struct tool_live *live,
		     struct top_sample *before, enum roam_err *err_p)
{
	enum tool_live_event heard = TOOL_LIVE_TIME;
	struct top_row *rows = NULL;
	struct top_sample now;

	*err_p = sample_take(server, &now);
	if (*err_p == ROAM_OK)
		rows = top_rows(before, &now);
	do {
		if (rows != NULL && options->json)
			top_json(&now, rows);
		else if (rows != NULL)
			top_text(live, address, &now, rows);
		fflush(stdout);
		if (*err_p == ROAM_OK && !options->once)
			heard = tool_live_sleep(live, options->every_s);
	} while (heard == TOOL_LIVE_RESIZE);
	free(rows);
	free(before->entries);
	*before = now;
	return *err_p == ROAM_OK && heard == TOOL_LIVE_TIME && !options->once &&
	       ferror(stdout) == 0;
}

int tool_past_top(struct roam_ps_server *server, const char *address,
		  const struct top_options *options)
{
	struct top_sample before;
	enum roam_err err = sample_take(server, &before);
	struct tool_live live;

	tool_live_begin(&live, !options->once && !options->json);
	if (err == ROAM_OK && tool_live_sleep(&live, options->every_s) != TOOL_LIVE_QUIT)
		while (top_look(server, address, options, &live, &before, &err))
			continue;
	tool_live_end(&live);
	free(before.entries);
	if (err != ROAM_OK)
		tool_say("past top: %s", roam_strerror(err));
	return err == ROAM_OK ? 0 : TOOL_FAILED;
}
