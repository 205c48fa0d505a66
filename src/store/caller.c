#include "store/caller.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"

#define COMMIT_LEAST ((size_t)16 << 10)
#define FULL "commits are refused until there is room on the disk: %s"

/* ------------------------------------------------------------------------------------ going out */

static bool caller_send(struct roami_caller *caller, uint32_t kind, uint64_t number,
			const void *one, size_t one_bytes, const void *two, size_t two_bytes)
{
	const struct roami_store_head head = {.kind = kind, .number = number};
	const struct roam_part parts[3] = {
		{&head, sizeof(head)}, {one, one_bytes}, {two, two_bytes}};
	uint8_t *at = roami_flow_room(&caller->out, sizeof(head) + one_bytes + two_bytes +
							    ROAMI_CHANNEL_EXTRA);

	if (at == NULL)
		caller->lost = true; /* frames must have no gap */
	if (caller->lost)
		return false;
	caller->out.end += roami_channel_close(&caller->channel, parts, 3, at);
	return true;
}

/* Tells an error; `line` has at most ROAMI_STORE_TEXT_MAX bytes. */
__attribute__((format(printf, 4, 5))) static bool
caller_error(struct roami_caller *caller, uint64_t number, enum roam_err err, const char *format,
	     ...)
{
	struct roami_store_error error = {.err = (uint32_t)err};
	char text[ROAMI_STORE_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	error.text_bytes = (uint32_t)strlen(text);
	return caller_send(caller, ROAMI_STORE_ERROR, number, &error, sizeof(error), text,
			   error.text_bytes);
}

void roami_caller_tell(struct roami_caller *caller)
{
	const struct roami_store_receipt receipt = {caller->callers->durable};

	if (!caller->open || caller->told >= receipt.serial || caller->told >= caller->last ||
	    !roami_flow_empty(&caller->out))
		return;
	caller->told = receipt.serial;
	caller_send(caller, ROAMI_STORE_DURABLE, 0, &receipt, sizeof(receipt), NULL, 0);
}

void roami_callers_end(struct roami_callers *callers, enum roam_err err, const char *why)
{
	for (struct roami_caller *at = callers->all; at != NULL; at = at->next) {
		if (at->open)
			caller_error(at, 0, err, "%s", why);
		at->lost = true;
	}
}

/* ------------------------------------------------------------------------------------- opening */

/* The store of a client that may commit: it makes an empty one. */
static bool open_make(struct roami_caller *caller, const struct roami_store_open *ask)
{
	struct roami_callers *callers = caller->callers;

	if (callers->full[0] != '\0') {
		caller_error(caller, 0, ROAM_ENOSPC, FULL, callers->full);
		return false;
	}
	if (ask->heap_bytes == 0 || ask->heap_bytes > ROAMI_STORE_HEAP_MAX ||
	    ask->heap_bytes % ROAMI_STORE_PAGE != 0) {
		caller_error(caller, 0, ROAM_EINVAL, "a heap of %llu bytes cannot be stored",
			     (unsigned long long)ask->heap_bytes);
		return false;
	}
	if (!roami_state_make(&callers->state, ask->heap_bytes)) {
		caller_error(caller, 0, ROAM_ENOMEM, "there is no memory for a heap of %llu bytes",
			     (unsigned long long)ask->heap_bytes);
		return false;
	}
	callers->is.heap_bytes = ask->heap_bytes;
	callers->is.heap_at = ask->heap_at;
	if (callers->make(callers->arg))
		return true;
	if (callers->full[0] != '\0')
		caller_error(caller, 0, ROAM_ENOSPC, FULL, callers->full);
	else
		caller_error(caller, 0, ROAM_ESYSTEM, "%s", callers->failed);
	callers->is.heap_bytes = 0;
	roami_state_free(&callers->state);
	return false;
}

/* Whether the client's heap is the store's. */
static bool open_fits(struct roami_caller *caller, const struct roami_store_open *ask)
{
	const struct roami_callers *callers = caller->callers;
	uint64_t at = callers->is.heap_at, bytes = callers->is.heap_bytes;

	if (bytes != 0 && ask->heap_bytes != bytes && (!caller->reads || ask->heap_bytes != 0)) {
		caller_error(caller, 0, ROAM_EMISMATCH,
			     "it keeps a heap of %llu bytes, the program has one of %llu: "
			     "take the ROAM_HEAP with which it was made",
			     (unsigned long long)roami_store_heap(bytes),
			     (unsigned long long)roami_store_heap(ask->heap_bytes));
		return false;
	}
	if (at != 0 && ask->heap_at != 0 && at != ask->heap_at) {
		caller_error(caller, 0, ROAM_EMISMATCH,
			     "it keeps a heap at 0x%llx, the program's is at 0x%llx",
			     (unsigned long long)at, (unsigned long long)ask->heap_at);
		return false;
	}
	return true;
}

/* One job commits at a time. */
static bool open_job(struct roami_caller *caller, const struct roami_store_open *ask)
{
	struct roami_callers *callers = caller->callers;
	bool same = memcmp(callers->job, ask->job, sizeof(ask->job)) == 0;

	if (callers->writers > 0 && !same) {
		caller_error(caller, 0, ROAM_EBUSY, "another job uses it");
		return false;
	}
	if (callers->is.heap_bytes == 0 && !open_make(caller, ask))
		return false;
	if (!same || callers->epoch == 0)
		callers->epoch = callers->serial + 1;
	memcpy(callers->job, ask->job, sizeof(callers->job));
	callers->writers++;
	return true;
}

static bool caller_opens(struct roami_caller *caller, const uint8_t *data, size_t bytes)
{
	struct roami_callers *callers = caller->callers;
	struct roami_store_opened answer = {.serial = callers->serial};
	struct roami_store_open ask;

	if (bytes != sizeof(ask))
		return false;
	memcpy(&ask, data, sizeof(ask));
	caller->reads = caller->read_key || (ask.flags & ROAMI_STORE_READS) != 0;
	if (ask.page_bytes != ROAMI_STORE_PAGE)
		caller_error(caller, 0, ROAM_EMISMATCH,
			     "it keeps pages of %u bytes, the program's have %u",
			     ROAMI_STORE_PAGE, ask.page_bytes);
	else if (open_fits(caller, &ask))
		caller->open = caller->reads || open_job(caller, &ask);
	if (!caller->open) {
		caller->lost = true; /* once it has been told */
		return true;
	}
	memcpy(answer.store, callers->is.store, sizeof(answer.store));
	answer.heap_bytes = callers->is.heap_bytes;
	answer.heap_at = callers->is.heap_at;
	answer.durable = caller->told = callers->durable;
	caller->last = callers->serial;
	answer.pages = callers->state.pages;
	answer.names = callers->state.name_count;
	answer.epoch = callers->epoch;
	answer.flags = (caller->reads ? ROAMI_STORE_READS : 0u) |
		       (callers->full[0] != '\0' ? ROAMI_STORE_FULL : 0u) |
		       (callers->is.ended ? ROAMI_STORE_ORDERLY : 0u);
	return caller_send(caller, ROAMI_STORE_OPENED, 0, &answer, sizeof(answer), NULL, 0);
}

/* ------------------------------------------------------------------------------------- loading */

static bool caller_loads(struct roami_caller *caller, uint64_t number, const uint8_t *data,
			 size_t bytes)
{
	const struct roami_store_state *state = &caller->callers->state;
	struct roami_store_part part = {.flags = ROAMI_STORE_LAST};
	uint8_t entries[ROAMI_STORE_ENTRIES_MAX];
	struct roami_store_load ask;

	if (bytes != sizeof(ask))
		return false;
	memcpy(&ask, data, sizeof(ask));
	if (ask.what > ROAMI_STORE_NAMES || ask.first > ask.end || ask.spare != 0)
		return false;
	part.next = ask.end;
	part.serial = ask.what == ROAMI_STORE_PAGES ? caller->callers->serial : state->named;
	if (state->heap_bytes == 0 || ask.first == ask.end)
		return caller_send(caller, ROAMI_STORE_LOADED, number, &part, sizeof(part), NULL,
				   0);
	for (unsigned frame = 1; ask.first != ask.end; frame++) {
		bytes = ask.what == ROAMI_STORE_PAGES
				? roami_state_pages(state, ask.since, ask.first, ask.end, entries,
						    sizeof(entries), &ask.first)
				: roami_state_names(state, ask.first, entries, sizeof(entries),
						    &ask.first);
		if (ask.what == ROAMI_STORE_NAMES && ask.first == UINT32_MAX)
			ask.first = ask.end;
		part.next = ask.first;
		part.flags = ask.first == ask.end || frame == ROAMI_STORE_FRAMES_MAX
				     ? ROAMI_STORE_LAST
				     : 0;
		if (!caller_send(caller, ROAMI_STORE_LOADED, number, &part, sizeof(part), entries,
				 bytes))
			return false;
		if (part.flags != 0)
			break;
	}
	return true;
}

/* ------------------------------------------------------------------------------------- commits */

static void commit_drop(struct roami_caller *caller)
{
	if (caller->commit != NULL)
		caller->callers->staged -= caller->commit_room;
	free(caller->commit);
	caller->commit = NULL;
	caller->commit_room = 0;
}

/* Room for so many bytes more of the commit that comes. */
static bool commit_room(struct roami_caller *caller, size_t bytes)
{
	struct roami_callers *callers = caller->callers;
	uint32_t has = caller->commit != NULL ? caller->commit->record.bytes : 0;
	size_t room = caller->commit_room;
	struct roami_log_commit *grown;

	if (has + bytes > ROAMI_STORE_COMMIT_MAX)
		return caller_error(caller, caller->number, ROAM_ETOOBIG,
				    "a commit has at most %llu MiB: store less in a transaction",
				    (unsigned long long)(ROAMI_STORE_COMMIT_MAX >> 20)) &&
		       false;
	while (room < has + bytes || room == 0)
		room = room == 0 ? COMMIT_LEAST : room * 2;
	if (caller->commit != NULL && room == caller->commit_room)
		return true;
	grown = callers->staged + room - caller->commit_room > ROAMI_CALLERS_STAGED
			? NULL
			: realloc(caller->commit, sizeof(*grown) + room);
	if (grown == NULL)
		return caller_error(caller, caller->number, ROAM_ENOMEM,
				    "it has no memory for the commit") &&
		       false;
	if (caller->commit == NULL)
		memset(grown, 0, sizeof(*grown));
	callers->staged += room - caller->commit_room;
	caller->commit = grown;
	caller->commit_room = room;
	return true;
}

/* The commit is whole: it gets its number, and is received. */
static bool commit_end(struct roami_caller *caller)
{
	struct roami_callers *callers = caller->callers;
	struct roami_log_commit *commit = caller->commit;
	struct roami_store_receipt receipt;
	const uint8_t *entries = roami_log_entries(commit);

	if (roami_state_new_names(&callers->state, entries, commit->record.bytes) +
		    callers->state.name_count >
	    ROAMI_STORE_NAMES_MAX) {
		commit_drop(caller);
		return caller_error(caller, caller->number, ROAM_ENOSPC,
				    "it keeps at most %u names", ROAMI_STORE_NAMES_MAX);
	}
	if (!roami_state_apply(&callers->state, callers->serial + 1, entries,
			       commit->record.bytes)) {
		snprintf(callers->failed, sizeof(callers->failed), "no memory for names");
		return false;
	}
	commit->record.serial = receipt.serial = caller->last = ++callers->serial;
	callers->staged -= caller->commit_room;
	callers->queued += sizeof(*commit) + commit->record.bytes;
	caller->commit = NULL;
	caller->commit_room = 0;
	callers->put(callers->arg, commit);
	return caller_send(caller, ROAMI_STORE_RECEIPT, caller->number, &receipt, sizeof(receipt),
			   NULL, 0);
}

/* A commit begins.  false: it is refused, which was told. */
static bool commit_begin(struct roami_caller *caller)
{
	if (caller->reads) {
		caller_error(caller, caller->number, ROAM_EREADONLY, "commits are refused: %s",
			     caller->read_key ? "the key gives the right to read only"
					      : "the client has said that it only reads");
		return false;
	}
	if (caller->callers->full[0] != '\0') {
		caller_error(caller, caller->number, ROAM_ENOSPC, FULL, caller->callers->full);
		return false;
	}
	return commit_room(caller, 0);
}

static bool caller_commits(struct roami_caller *caller, uint64_t number, const uint8_t *data,
			   size_t bytes)
{
	struct roami_store_part part;

	if (bytes < sizeof(part))
		return false;
	memcpy(&part, data, sizeof(part));
	data += sizeof(part);
	bytes -= sizeof(part);
	if (part.flags > ROAMI_STORE_LAST || (caller->under_way && number != caller->number) ||
	    !roami_state_fits(&caller->callers->state, data, bytes))
		return false;
	if (!caller->under_way) {
		caller->under_way = true;
		caller->number = number;
		if (!commit_begin(caller))
			commit_drop(caller);
	}
	if (caller->commit != NULL && !commit_room(caller, bytes))
		commit_drop(caller);
	if (caller->commit != NULL) {
		memcpy(roami_log_entries(caller->commit) + caller->commit->record.bytes, data,
		       bytes);
		caller->commit->record.bytes += (uint32_t)bytes;
	}
	if (part.flags == 0)
		return !caller->lost;
	caller->under_way = false;
	return caller->commit != NULL ? commit_end(caller) : !caller->lost;
}

/* ----------------------------------------------------------------------------------- coming in */

/* false: the connection is to be dropped. */
static bool caller_frame(struct roami_caller *caller, const uint8_t *text, size_t bytes)
{
	struct roami_store_head head;

	if (bytes < sizeof(head))
		return false;
	memcpy(&head, text, sizeof(head));
	text += sizeof(head);
	bytes -= sizeof(head);
	if (!caller->open)
		return head.kind == ROAMI_STORE_OPEN && caller_opens(caller, text, bytes);
	switch (head.kind) {
	case ROAMI_STORE_LOAD:
		return caller_loads(caller, head.number, text, bytes);
	case ROAMI_STORE_COMMIT:
		return caller_commits(caller, head.number, text, bytes);
	default: /* ROAMI_STORE_CLOSE, or what no client says */
		return false;
	}
}

/* A frame by which the client sees whether the server has its key. */
static void caller_welcome(struct roami_channel *channel, const uint8_t *key, const uint8_t *hello,
			   uint8_t *at)
{
	const struct roami_store_head head = {.kind = ROAMI_STORE_WELCOME};

	roami_channel_handshake(channel, ROAMI_STORE_MAGIC, key, false, hello);
	roami_channel_close(channel, &(struct roam_part){&head, sizeof(head)}, 1, at);
}

static bool caller_hello(struct roami_caller *caller, const uint8_t *hello)
{
	const struct roami_callers *callers = caller->callers;
	const size_t bytes = ROAMI_CHANNEL_HELLO + 2 * ROAMI_STORE_WELCOME_BYTES;
	uint8_t *at = roami_flow_room(&caller->out, bytes);

	if (at == NULL || !roami_channel_init(&caller->channel, ROAMI_STORE_MAGIC, at))
		return false;
	caller->reader = caller->channel;
	at += ROAMI_CHANNEL_HELLO;
	caller_welcome(&caller->channel, callers->key, hello, at);
	caller_welcome(&caller->reader, callers->read_key, hello, at + ROAMI_STORE_WELCOME_BYTES);
	caller->out.end += bytes;
	caller->met = true;
	return true;
}

/* Opens a frame; the first one shows by which of the keys the client is known. */
static uint8_t *caller_open(struct roami_caller *caller, uint8_t *frame, uint32_t length)
{
	uint8_t first[ROAMI_CALLER_STRANGE], *text;

	if (caller->known)
		return roami_channel_open(&caller->channel, frame, length);
	if (length > sizeof(first) - sizeof(length))
		return NULL;
	memcpy(first, frame, sizeof(length) + length);
	text = roami_channel_open(&caller->channel, frame, length);
	if (text == NULL) { /* it has used the frame up */
		memcpy(frame, first, sizeof(length) + length);
		caller->channel = caller->reader;
		caller->read_key = true;
		text = roami_channel_open(&caller->channel, frame, length);
	}
	caller->known = true;
	roami_channel_fini(&caller->reader);
	return text;
}

size_t roami_caller_take(struct roami_caller *caller, uint8_t *in, size_t bytes)
{
	size_t at = 0;
	uint32_t length;
	uint8_t *text;

	if (!caller->met) {
		if (memcmp(in, ROAMI_STORE_MAGIC,
			   bytes < ROAMI_CHANNEL_MAGIC ? bytes : ROAMI_CHANNEL_MAGIC) != 0)
			return SIZE_MAX;
		if (bytes < ROAMI_CHANNEL_HELLO)
			return 0;
		if (!caller_hello(caller, in))
			return SIZE_MAX;
		at = ROAMI_CHANNEL_HELLO;
	}
	while (bytes - at >= sizeof(length) && roami_caller_may(caller)) {
		memcpy(&length, in + at, sizeof(length));
		if (length > ROAMI_STORE_FRAME_MAX - sizeof(length))
			return SIZE_MAX;
		if (bytes - at < sizeof(length) + length)
			break;
		text = caller_open(caller, in + at, length);
		if (text == NULL || !caller_frame(caller, text, length - ROAMI_CHANNEL_TAG))
			return SIZE_MAX;
		at += sizeof(length) + length;
	}
	return at;
}

/* ---------------------------------------------------------------------------------------- life */

void roami_caller_init(struct roami_caller *caller, struct roami_callers *callers)
{
	memset(caller, 0, sizeof(*caller));
	caller->callers = callers;
	caller->next = callers->all;
	caller->before = &callers->all;
	if (caller->next != NULL)
		caller->next->before = &caller->next;
	callers->all = caller;
}

void roami_caller_fini(struct roami_caller *caller)
{
	if (caller->open && !caller->reads)
		caller->callers->writers--;
	commit_drop(caller);
	roami_flow_free(&caller->out);
	*caller->before = caller->next;
	if (caller->next != NULL)
		caller->next->before = caller->before;
	roami_channel_fini(&caller->channel);
	roami_channel_fini(&caller->reader);
	memset(caller, 0, sizeof(*caller));
}

void roami_callers_fini(struct roami_callers *callers)
{
	roami_assert(callers->all == NULL);
	roami_state_free(&callers->state);
	explicit_bzero(callers->key, sizeof(callers->key));
	explicit_bzero(callers->read_key, sizeof(callers->read_key));
}
