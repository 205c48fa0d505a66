#include "roam_past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "roam_tool.h"

#define ROWS_USUAL 40u
#define ROWS_HEAD  3u

/* All elements at one moment. */
struct top_sample {
	struct roami_listed head; /* the last answer's */
	struct roami_listing *entries;
	uint32_t count;
};

/* An element, and how often in a second something was done to it. */
struct top_row {
	const struct roami_listing *entry;
	double moves, observes;
};

/* The answer to one question; false: it is malformed. */
static bool sample_add(struct top_sample *sample, const uint8_t *answer, size_t bytes)
{
	struct roami_listing *grown;

	if (bytes < sizeof(sample->head))
		return false;
	memcpy(&sample->head, answer, sizeof(sample->head));
	if (sample->head.count > ROAMI_LISTINGS_MAX ||
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

static enum roam_err sample_take(struct roam_ps_server *server, struct top_sample *sample)
{
	static const size_t room = sizeof(struct roami_listed) +
				   ROAMI_LISTINGS_MAX * sizeof(struct roami_listing);
	uint8_t *answer = malloc(room);
	enum roam_err err = answer == NULL ? ROAM_ENOMEM : ROAM_OK;
	size_t got = 0;

	memset(sample, 0, sizeof(*sample));
	while (err == ROAM_OK) {
		struct roami_list ask = {sample->count, 0};
		struct roam_part part = {&ask, sizeof(ask)};

		err = roami_attach_call(server, ROAMI_GUEST_LIST, &part, 1, answer, room, &got);
		if (err == ROAM_OK && !sample_add(sample, answer, got))
			err = ROAM_EPROTO;
		if (err == ROAM_OK && sample->head.count == 0)
			break;
	}
	free(answer);
	return err;
}

static int row_compare(const void *a, const void *b)
{
	const struct top_row *one = a, *two = b;
	double busy = two->moves + two->observes - one->moves - one->observes;

	return busy != 0 ? (busy > 0) - (busy < 0) : strcmp(one->entry->name, two->entry->name);
}

/* Rates since the sample before; the busiest first.  NULL: there is no memory. */
static struct top_row *top_rows(const struct top_sample *before, const struct top_sample *now)
{
	double seconds = (double)(now->head.now_ns - before->head.now_ns) * 1e-9;
	struct top_row *rows = calloc(now->count + 1, sizeof(*rows));

	for (uint32_t i = 0; rows != NULL && i < now->count; i++) {
		struct roami_listing none = {.moves = 0};
		const struct roami_listing *was = i < before->count ? &before->entries[i] : &none;

		rows[i].entry = &now->entries[i];
		rows[i].moves = (double)(now->entries[i].moves - was->moves) / seconds;
		rows[i].observes = (double)(now->entries[i].observes - was->observes) / seconds;
	}
	if (rows != NULL)
		qsort(rows, now->count, sizeof(*rows), row_compare);
	return rows;
}

/* -------------------------------------------------------------------------------------- as text */

static uint32_t top_height(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return UINT32_MAX;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row <= ROWS_HEAD + 1)
		return ROWS_USUAL;
	return size.ws_row - ROWS_HEAD - 1u;
}

/* Bytes of a name that are no text do nothing to the terminal. */
static void text_name(const char *name)
{
	for (; *name != '\0'; name++)
		putchar(*name >= ' ' && *name <= '~' ? *name : '?');
}

static void text_delta(uint64_t delta)
{
	if (delta == UINT64_MAX)
		printf("%10s ", "-");
	else
		printf("%10" PRIu64 " ", delta);
}

static void top_text(const char *address, const struct top_sample *sample,
		     const struct top_row *rows, bool once)
{
	uint32_t height = once ? UINT32_MAX : top_height();

	if (!once && isatty(STDOUT_FILENO))
		printf("\033[H\033[J");
	printf("%s: %u elements, %u programs attached, %" PRIu64 " refused\n\n", address,
	       sample->count, sample->head.guests, sample->head.refused);
	printf("%12s %12s %10s %12s %10s %8s %10s %10s  %s\n", "FIRST", "LAST", "TUPLES", "BYTES",
	       "DELTA", "WAITING", "MOVES/S", "OBSERVES/S", "ELEMENT");
	for (uint32_t i = 0; i < sample->count && i < height; i++) {
		const struct roam_ps_state *state = &rows[i].entry->state;

		printf("%12" PRIu64 " %12" PRIu64 " %10" PRIu64 " %12" PRIu64 " ", state->first,
		       state->last, state->last + 1 - state->oldest, state->bytes);
		text_delta(state->delta);
		printf("%8" PRIu64 " %10.0f %10.0f  ", state->waiting, rows[i].moves,
		       rows[i].observes);
		text_name(rows[i].entry->name);
		if (rows[i].entry->function[0] != '\0') {
			printf(" (");
			text_name(rows[i].entry->function);
			printf(")");
		}
		putchar('\n');
	}
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

	printf("{\"name\": ");
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

static void top_sleep(double seconds)
{
	struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	while (nanosleep(&left, &left) != 0)
		continue;
}

int tool_past_top(struct roam_ps_server *server, const char *address,
		  const struct top_options *options)
{
	struct top_sample before, now;
	enum roam_err err = sample_take(server, &before);
	struct top_row *rows;

	while (err == ROAM_OK) {
		top_sleep(options->every_s);
		err = sample_take(server, &now);
		rows = err == ROAM_OK ? top_rows(&before, &now) : NULL;
		if (rows != NULL && options->json)
			top_json(&now, rows);
		else if (rows != NULL)
			top_text(address, &now, rows, options->once);
		fflush(stdout);
		free(rows);
		free(before.entries);
		before = now;
		if (options->once || ferror(stdout) != 0)
			break;
	}
	free(before.entries);
	if (err != ROAM_OK)
		tool_say("past top: %s", roam_strerror(err));
	return err == ROAM_OK ? 0 : TOOL_FAILED;
}
