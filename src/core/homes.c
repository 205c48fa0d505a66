/* Who is a page's home: the directory, claiming at first touch, headers of own pages. */
#include <string.h>

#include "core/domain.h"
#include "core/far.h"
#include "core/guess.h"
#include "core/page.h"
#include "core/race.h"
#include "core/remote.h"
#include "core/thread.h"
#include "msg/msg.h"

#define CLAIM_RUN        64u
#define CLAIM_FIRST      4u
#define CLAIM_STRIDE_MAX 64

unsigned roami_manager(const struct roami_node *node, uint32_t page)
{
	return roami_page_manager(page, node->nodes);
}

/* -------------------------------------------------------------------------------------- claims */

/* Whether the words and headers that a manager keeps are reached by loads and stores. */
static bool manager_near(const struct roami_node *node, unsigned manager)
{
	return manager == node->me || roami_near(node, manager);
}

/* The words say CLAIMED by us: brings the creator's bytes. */
static void claim_fill(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	roami_creator_fetch(node, first, count, stride);
	if (count > 1 && stride == 1 && node->engine->fill != NULL)
		node->engine->fill(node->engine_state, first, count);
	ROAMI_COUNT(node->stats, claims, count);
}

/*
 * What the word of a page says while `home` is claiming it.  One that travels says at once where
 * the page is, if who asks there waits until it is ready: then nobody need be told so.
 */
static uint64_t claim_word(struct roami_node *node, uint32_t page, unsigned home, bool far)
{
	if (far && roami_homes_of(node, page) == ROAM_HOMES_FIXED)
		return ROAMI_WORD_READY | home;
	return ROAMI_WORD_CLAIMED | home;
}

/* Tries to move the word from `word` to a home; true: it is ours now and must be published. */
static bool claim_try(struct roami_node *node, uint32_t page, uint64_t word)
{
	unsigned home = (word & ROAMI_WORD_STATE) == ROAMI_WORD_ASSIGNED
				? (unsigned)(word & 0xffffu)
				: node->me;
	bool far = home == node->me && !manager_near(node, roami_manager(node, page));

	if (roami_word_swap(node, page, word, claim_word(node, page, home, far)) != word)
		return false;
	if (home == node->me) {
		claim_fill(node, page, 1, 1);
		return true;
	}
	roami_adopt(node, home, page);
	if (roami_word_swap(node, page, ROAMI_WORD_CLAIMED | home, ROAMI_WORD_READY | home) !=
	    (ROAMI_WORD_CLAIMED | home))
		roami_node_fail(node, "page %u: its directory word changed while claimed", page);
	return false;
}

/* Somebody is copying the page: they are quick, and nobody would wake us. */
static void claim_pause(struct roami_node *node, unsigned turn)
{
	roami_msg_poll(node);
	node->env->spin(node, turn);
}

/* A word as a peer has it: the home that it names is noted, for homes do not change. */
static void word_learned(struct roami_node *node, uint32_t page, uint64_t word)
{
	uint16_t unknown = 0;

	if ((word & ROAMI_WORD_STATE) != ROAMI_WORD_READY)
		return;
	if ((word & 0xffffu) >= node->nodes)
		roami_node_fail(node, "page %u: malformed directory word", page);
	atomic_compare_exchange_strong(&roami_page_entry(node, page)->home, &unknown,
				       (uint16_t)((word & 0xffffu) + 1));
}

/* What is asked for by message is asked for a page's neighbours, too: how many from *first_p. */
static uint32_t words_around(const struct roami_node *node, uint32_t page, uint32_t *first_p)
{
	uint32_t left;

	*first_p = page / ROAMI_GROUP * ROAMI_GROUP;
	left = node->layout.pages - *first_p;
	return left < ROAMI_GROUP ? left : ROAMI_GROUP;
}

void roami_words_learned(struct roami_node *node, uint32_t first, uint32_t count,
			 const uint64_t *words, uint64_t epoch)
{
	for (uint32_t i = 0; i < count; i++)
		word_learned(node, first + i, words[i]);
	roami_guess_learn(node, first, count, words, epoch);
}

/* The words around a page have come; its own. */
static uint64_t words_around_learned(struct roami_node *node, uint32_t page, const uint64_t *words,
				     uint64_t epoch)
{
	uint32_t first, count = words_around(node, page, &first);

	roami_words_learned(node, first, count, words, epoch);
	return words[page - first];
}

static uint64_t word_find(struct roami_node *node, uint32_t page)
{
	uint64_t words[ROAMI_GROUP], epoch = roami_guess_epoch(node);
	uint32_t first, count;

	if (manager_near(node, roami_manager(node, page))) {
		words[0] = roami_word_load(node, page);
		word_learned(node, page, words[0]);
		return words[0];
	}
	count = words_around(node, page, &first);
	roami_words_read(node, first, count, words);
	return words_around_learned(node, page, words, epoch);
}

/*
 * Whether a claim run may go on to `page`: within one allocation, untouched by anybody.  Pending
 * and claimed on return.
 */
static bool claim_more(struct roami_node *node, uint32_t page)
{
	if (roami_page_access(node, page) != ROAM_NONE ||
	    roami_word_load(node, page) != ROAMI_WORD_CREATOR || !roami_page_try(node, page))
		return false;
	if (roami_word_swap(node, page, ROAMI_WORD_CREATOR, ROAMI_WORD_CLAIMED | node->me) ==
	    ROAMI_WORD_CREATOR)
		return true;
	roami_page_done(node, page);
	return false;
}

/*
 * A block's first page is marked in its manager's header.  None begins in (from, to], or (to,
 * from]?  Of managers that are not near it is not known.
 */
static bool claim_same_block(struct roami_node *node, uint32_t from, uint32_t to)
{
	uint32_t low = from < to ? from : to, high = from < to ? to : from;

	for (uint32_t page = low + 1; page <= high; page++) {
		unsigned manager = roami_manager(node, page);

		if (!manager_near(node, manager) ||
		    (atomic_load(&node->segments[manager].headers[page].where) &
		     ROAMI_HEADER_BLOCK) != 0)
			return false;
	}
	return true;
}

static bool claims_near(const struct roami_claims *claims, uint32_t page)
{
	int64_t distance = (int64_t)page - claims->last;

	return distance != 0 && distance >= -CLAIM_STRIDE_MAX && distance <= CLAIM_STRIDE_MAX;
}

/*
 * Whether `page` begins a column beside the one that was claimed last: a matrix is written along
 * its rows, many at a time.
 */
static bool claims_beside(const struct roami_claims *claims, uint32_t page)
{
	return claims->ahead > 0 && claims->stride != 1 && page == claims->first + 1;
}

/* The stream that goes on at `page`, or beside which one begins there; NULL: none. */
static struct roami_claims *claims_expecting(struct roami_thread *thread, uint32_t page)
{
	for (unsigned i = 0; i < ROAMI_STREAMS; i++) {
		struct roami_claims *claims = &thread->claims[i];

		if (claims->stride != 0 && page - claims->last == (uint32_t)claims->stride)
			return claims;
	}
	for (unsigned i = 0; i < ROAMI_STREAMS; i++)
		if (claims_beside(&thread->claims[i], page))
			return &thread->claims[i];
	return NULL;
}

/* That one, else one near it, else a new one. */
static struct roami_claims *claims_find(struct roami_thread *thread, uint32_t page)
{
	struct roami_claims *claims = claims_expecting(thread, page);

	if (claims != NULL)
		return claims;
	for (unsigned i = 0; i < ROAMI_STREAMS; i++)
		if (claims_near(&thread->claims[i], page))
			return &thread->claims[i];
	claims = &thread->claims[thread->claims_next++ % ROAMI_STREAMS];
	claims->last = page;
	return claims;
}

/* The run of which the claim under way has got more than its page. */
static struct roami_claims *claims_granted(struct roami_thread *thread)
{
	for (unsigned i = 0; i < ROAMI_STREAMS; i++)
		if (thread->claims[i].granted > 0)
			return &thread->claims[i];
	return NULL;
}

/* How many pages to claim beyond `page`: more each time the next claim is where it was expected. */
static uint32_t claims_ahead(struct roami_claims *claims, uint32_t page)
{
	int32_t stride = (int32_t)(page - claims->last);

	if (stride != 0 && stride == claims->stride) {
		claims->ahead = claims->ahead == 0 ? CLAIM_FIRST : claims->ahead * 2;
	} else if (claims_beside(claims, page)) {
		claims->ahead = (claims->last - claims->first) / (uint32_t)claims->stride;
		claims->first = page;
	} else {
		claims->ahead = 0;
		claims->first = claims->last;
		claims->stride = stride;
	}
	if (claims->ahead > CLAIM_RUN - 1)
		claims->ahead = CLAIM_RUN - 1;
	claims->last = page;
	return claims->ahead;
}

bool roami_claim_expected(struct roami_node *node, uint32_t page)
{
	return claims_expecting(roami_thread_self(node), page) != NULL;
}

void roami_claim_passed(struct roami_node *node, uint32_t page)
{
	claims_ahead(claims_find(roami_thread_self(node), page), page);
}

/* Whether the run may go on at `next`, as far as this node can tell. */
static bool claim_goes_on(struct roami_node *node, uint32_t page, int64_t next)
{
	return next >= 0 && next < node->layout.pages &&
	       roami_domain_of(node, (uint32_t)next) == roami_domain_of(node, page);
}

/* Whether `page` is of the same block as that one stride before it. */
static bool claim_continues(struct roami_node *node, uint32_t page, int32_t stride)
{
	int64_t last = (int64_t)page - stride;

	return claim_goes_on(node, page, last) && claim_same_block(node, (uint32_t)last, page);
}

static uint32_t claim_run_near(struct roami_node *node, uint32_t page, int32_t stride,
			       uint32_t most)
{
	uint32_t count = 0;

	for (uint32_t last = page; count < most; count++) {
		int64_t next = (int64_t)last + stride;

		if (!claim_goes_on(node, page, next) ||
		    !claim_same_block(node, last, (uint32_t)next) ||
		    !claim_more(node, (uint32_t)next))
			break;
		last = (uint32_t)next;
	}
	return count;
}

struct claim_ask {
	uint32_t first;
	int32_t stride;
	uint32_t count;
	uint32_t touched; /* the first one; else it goes on with a run, too */
};

struct claim_answer {
	uint32_t granted;
	uint32_t spare;
	uint64_t words[ROAMI_GROUP]; /* around the page, with a stride of 0 */
};

static size_t claim_answer_bytes(const struct roami_node *node, const struct claim_ask *ask)
{
	uint32_t first, words = ask->stride == 0 ? words_around(node, ask->first, &first) : 0;

	return offsetof(struct claim_answer, words) + words * sizeof(uint64_t);
}

/* Asks a manager that is not near; how many it grants. */
static uint32_t claim_call(struct roami_node *node, unsigned manager, const struct claim_ask *ask,
			   struct claim_answer *answer)
{
	struct roam_part part = {ask, sizeof(*ask)};

	if (roami_msg_call(node, manager, ROAMI_TYPE_MEMORY + ROAMI_MEMORY_CLAIM, &part, 1, answer,
			   sizeof(*answer)) != claim_answer_bytes(node, ask) ||
	    answer->granted > ask->count)
		roami_node_fail(node, "node %u sent a malformed answer to a claim", manager);
	return answer->granted;
}

/*
 * The same where the manager has to be asked, from `first` on: what it grants, of pages that are
 * held meanwhile.  `touched`: the first one is so already.
 */
static uint32_t claim_run_far(struct roami_node *node, uint32_t first, int32_t stride,
			      uint32_t most, bool touched)
{
	struct claim_ask ask = {first, stride, touched, touched};
	struct claim_answer answer;
	uint32_t granted = 0;
	unsigned manager = roami_manager(node, first);

	for (; ask.count < most; ask.count++) {
		int64_t next = (int64_t)first + (int64_t)stride * ask.count;

		if (!claim_goes_on(node, first, next) ||
		    roami_manager(node, (uint32_t)next) != manager ||
		    roami_page_access(node, (uint32_t)next) != ROAM_NONE ||
		    !roami_page_try(node, (uint32_t)next))
			break;
	}
	if (ask.count > 0)
		granted = claim_call(node, manager, &ask, &answer);
	for (uint32_t i = granted > touched ? granted : touched; i < ask.count; i++)
		roami_page_done(node, first + i * (uint32_t)stride);
	return granted;
}

/* Claims a page that goes on with a run, and those that are expected behind it. */
static bool claim_at_once(struct roami_node *node, uint32_t page)
{
	struct roami_thread *thread = roami_thread_self(node);
	struct roami_claims *claims = claims_expecting(thread, page);
	uint32_t most;

	if (claims == NULL || claims->ahead == 0)
		return false;
	most = claims_ahead(claims, page);
	claims->granted = claim_run_far(node, page, claims->stride, 1 + most, true);
	claim_fill(node, page, claims->granted, claims->stride);
	return claims->granted > 0;
}

/*
 * Claims a page of another host's without looking first; its word if somebody else has it, and what
 * is known around it.
 */
static uint64_t claim_or_find(struct roami_node *node, uint32_t page, bool *claimed_p)
{
	struct claim_ask ask = {page, 0, 1, 1};
	struct claim_answer answer;
	uint64_t epoch = roami_guess_epoch(node);

	*claimed_p = claim_call(node, roami_manager(node, page), &ask, &answer) == 1;
	if (*claimed_p)
		claim_fill(node, page, 1, 1);
	return words_around_learned(node, page, answer.words, epoch);
}

void roami_claim_handle(struct roami_node *node, const struct roam_request *request)
{
	struct claim_ask ask;
	uint64_t theirs;
	struct claim_answer answer;
	struct roam_part part = {&answer, 0};
	uint32_t granted = 0, first, words;

	if (request->bytes != sizeof(ask))
		roami_node_fail(node, "node %u sent a malformed claim", request->from);
	memcpy(&ask, request->data, sizeof(ask));
	if (ask.count > CLAIM_RUN || ask.first >= node->layout.pages ||
	    ask.stride > CLAIM_STRIDE_MAX || ask.stride < -CLAIM_STRIDE_MAX)
		roami_node_fail(node, "node %u claimed pages beyond the heap", request->from);
	theirs = claim_word(node, ask.first, request->origin, true);
	for (; granted < ask.count; granted++) {
		int64_t next = (int64_t)ask.first + (int64_t)ask.stride * granted;
		uint64_t nobody = ROAMI_WORD_CREATOR;

		if (!claim_goes_on(node, ask.first, next) ||
		    roami_manager(node, (uint32_t)next) != node->me ||
		    ((granted > 0 || !ask.touched) &&
		     !claim_continues(node, (uint32_t)next, ask.stride)) ||
		    !atomic_compare_exchange_strong(&node->self->directory[next], &nobody, theirs))
			break;
	}
	answer.granted = granted;
	answer.spare = 0;
	words = words_around(node, ask.first, &first);
	for (uint32_t i = 0; ask.stride == 0 && i < words; i++)
		answer.words[i] = atomic_load(&node->self->directory[first + i]);
	part.bytes = claim_answer_bytes(node, &ask);
	roami_reply(node, request, &part, 1);
}

unsigned roami_home_find(struct roami_node *node, uint32_t page, bool claim, bool *claimed_p)
{
	struct roami_page *entry = roami_page_entry(node, page);
	bool asks = claim && !manager_near(node, roami_manager(node, page));

	*claimed_p = false;
	if (asks && entry->home == 0 && claim_at_once(node, page)) {
		*claimed_p = true;
		return node->me;
	}

	for (unsigned turn = 0; entry->home == 0; turn++) {
		uint64_t word =
			asks ? claim_or_find(node, page, claimed_p) : word_find(node, page);

		if (*claimed_p)
			return node->me;
		if ((word & ROAMI_WORD_STATE) == ROAMI_WORD_READY)
			break;
		if (!claim)
			return ROAM_NOBODY;
		if ((word & ROAMI_WORD_STATE) == ROAMI_WORD_CLAIMED) {
			claim_pause(node, turn);
		} else if (claim_try(node, page, word)) {
			*claimed_p = true;
			return node->me;
		}
	}
	return entry->home - 1u;
}

uint32_t roami_home_claim_run(struct roami_node *node, uint32_t page, int32_t *stride_p)
{
	struct roami_thread *thread = roami_thread_self(node);
	struct roami_claims *claims = claims_granted(thread);
	uint32_t most, count;
	int32_t stride;
	int64_t next;

	if (claims != NULL) { /* with the first one */
		count = claims->granted - 1;
		claims->granted = 0;
		claims->last = page + count * (uint32_t)claims->stride;
		*stride_p = claims->stride;
		return count;
	}
	claims = claims_find(thread, page);
	most = claims_ahead(claims, page);
	*stride_p = stride = claims->stride;
	next = (int64_t)page + stride;
	if (most == 0 || !claim_goes_on(node, page, next))
		return 0;
	count = manager_near(node, roami_manager(node, (uint32_t)next))
			? claim_run_near(node, page, stride, most)
			: claim_run_far(node, (uint32_t)next, stride, most, false);
	claim_fill(node, (uint32_t)next, count, stride);
	claims->last = page + count * (uint32_t)stride;
	return count;
}

/* ---------------------------------------------------------------------------------- publishing */

struct publish {
	uint32_t first;
	int32_t stride;
	uint32_t count;
};

/* The words of pages that `home` has claimed, which this node reaches, say that they are ready. */
static void publish_words(struct roami_node *node, unsigned home, const struct publish *run)
{
	for (uint32_t i = 0; i < run->count; i++) {
		uint32_t page = run->first + i * (uint32_t)run->stride;

		if (roami_word_swap(node, page, ROAMI_WORD_CLAIMED | home,
				    ROAMI_WORD_READY | home) != (ROAMI_WORD_CLAIMED | home))
			roami_node_fail(node, "page %u: its directory word changed while claimed",
					page);
	}
}

void roami_publish_handle(struct roami_node *node, const struct roam_request *request)
{
	struct publish run;
	int64_t page;

	if (request->bytes != sizeof(run))
		roami_node_fail(node, "node %u sent malformed homes", request->from);
	memcpy(&run, request->data, sizeof(run));
	page = run.first;
	for (uint32_t i = 0; i < run.count; i++, page += run.stride)
		if (i >= CLAIM_RUN || page < 0 || page >= node->layout.pages ||
		    roami_manager(node, (uint32_t)page) != node->me)
			roami_node_fail(node, "node %u is home of pages beyond the heap",
					request->from);
	publish_words(node, request->from, &run);
}

/*
 * Over the network nobody waits for it: who finds a page claimed looks again, or the word has said
 * so since the claim.
 */
static void publish_run(struct roami_node *node, unsigned manager, const struct publish *run)
{
	struct roam_part part = {run, sizeof(*run)};

	if (manager_near(node, manager))
		publish_words(node, node->me, run);
	else if (roami_homes_of(node, run->first) != ROAM_HOMES_FIXED)
		roami_msg_send(node, manager, ROAMI_TYPE_MEMORY + ROAMI_MEMORY_PUBLISH, &part, 1);
}

void roami_home_publish(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride,
			uint64_t version)
{
	struct publish run = {first, stride, 0};

	for (uint32_t i = 0; i < count; i++) {
		uint32_t page = first + i * (uint32_t)stride;
		struct roami_header *header = &node->self->headers[page];
		uint32_t marks = atomic_load(&header->where) &
				 (ROAMI_HEADER_BLOCK | ROAMI_HEADER_BYTES);

		roami_assert(roami_domain_of(node, page)->protocol->region_option == NULL);
		atomic_store(&header->version, node->version_begin + version);
		if (roami_homes_of(node, page) == ROAM_HOMES_TAKEN &&
		    !roami_race_checked(node)) {
			marks |= ROAMI_HEADER_OPEN;
			roami_page_mark_dirty(node, roami_page_entry(node, page), page);
		}
		atomic_store(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY | marks |
						     node->epoch_begin << ROAMI_HEADER_EPOCH);
		atomic_store_explicit(&roami_page_entry(node, page)->home,
				      (uint16_t)(node->me + 1), memory_order_relaxed);
		if (roami_manager(node, page) != roami_manager(node, run.first)) {
			publish_run(node, roami_manager(node, run.first), &run);
			run = (struct publish){page, stride, 0};
		}
		run.count++;
	}
	publish_run(node, roami_manager(node, run.first), &run);
}

/* --------------------------------------------------------------------------------- own headers */

uint64_t roami_home_version_bump(struct roami_node *node, uint32_t page)
{
	roami_step(node);
	ROAMI_COUNT(node->stats, home_writes, 1);
	return ROAMI_VERSION(atomic_fetch_add(&node->self->headers[page].version, 1) + 1);
}

bool roami_home_is_shared(struct roami_node *node, uint32_t page)
{
	atomic_thread_fence(memory_order_seq_cst);
	return (atomic_load(&node->self->headers[page].shared) &
		(ROAMI_SHARED | ROAMI_SHARED_LISTED)) != 0;
}

void roami_home_unshare(struct roami_node *node, uint32_t page)
{
	_Atomic uint32_t *shared = &node->self->headers[page].shared;
	uint32_t mark = atomic_load(shared);

	roami_step(node);
	while (!atomic_compare_exchange_weak(
		shared, &mark, ((mark >> ROAMI_SHARED_BITS) + 1) << ROAMI_SHARED_BITS))
		;
	roami_step(node);
}

bool roami_home_shared_any(struct roami_node *node)
{
	for (unsigned by = 0; by < node->nodes; by++)
		if (atomic_load_explicit(&node->self->tails[by].tail, memory_order_acquire) !=
		    node->share_head[by])
			return true;
	return atomic_load(&node->shared_left) != 0;
}

/* Another domain's: kept until that one asks, in this release or the next. */
static void home_shared_leave(struct roami_node *node, uint32_t page)
{
	struct roami_vec *shared = &roami_domain_of(node, page)->shared;
	uint32_t *slot = roami_os_vec_grow(shared, sizeof(*slot), 1);

	if (slot == NULL)
		roami_node_fail(node, "no memory for the list of shared pages");
	*slot = page;
	shared->count++;
	atomic_fetch_add(&node->shared_left, 1);
}

/* What another domain has left for this one. */
static size_t home_shared_left(struct roami_node *node, struct roami_domain *mine, uint32_t *pages,
			       size_t max)
{
	struct roami_vec *shared = &mine->shared;
	const uint32_t *left = (const void *)shared->items;
	size_t count = 0;

	while (shared->count > 0 && count < max)
		pages[count++] = left[--shared->count];
	atomic_fetch_sub(&node->shared_left, (uint32_t)count);
	return count;
}

size_t roami_home_shared(struct roami_node *node, uint32_t *pages, size_t max)
{
	uint32_t ring = roami_share_slots(&node->layout);
	struct roami_domain *mine = roami_domain_current(node);
	size_t count;

	roami_step(node);
	atomic_thread_fence(memory_order_seq_cst);
	count = home_shared_left(node, mine, pages, max);
	for (unsigned by = 0; by < node->nodes; by++) {
		const _Atomic uint32_t *slots = node->self->slots + (size_t)by * ring;
		uint64_t tail = atomic_load_explicit(&node->self->tails[by].tail,
						     memory_order_acquire);

		while (node->share_head[by] != tail && count < max) {
			uint32_t page = atomic_load(&slots[node->share_head[by]++ % ring]);

			if (page >= node->layout.pages)
				roami_node_fail(node, "node %u reported page %u, beyond the heap",
						by, page);
			if (roami_domain_of(node, page) == mine)
				pages[count++] = page;
			else
				home_shared_leave(node, page);
		}
	}
	return count;
}

/* ------------------------------------------------------------------------------ homes that move */

uint32_t roami_home_here(struct roami_node *node, uint32_t page)
{
	uint32_t where = atomic_load(&node->self->headers[page].where);

	return (where & ROAM_HEADER_HOME) == 0
		       ? 0
		       : ROAM_PLACE_MADE(node->me, where >> ROAMI_HEADER_EPOCH);
}

/* Nobody else's stores are under way, and none can begin; false: some are. */
static bool home_leaves(struct roami_header *header)
{
	uint32_t where = atomic_load(&header->where);

	while ((where & ROAMI_HEADER_PINNED) == 0)
		if (atomic_compare_exchange_weak(&header->where, &where,
						 where & ~(ROAM_HEADER_HOME | ROAM_HEADER_READY)))
			return true;
	return false;
}

bool roami_home_give(struct roami_node *node, uint32_t page, uint8_t *bytes, uint64_t *version_p,
		     bool *open_p)
{
	struct roami_header *header = &node->self->headers[page];
	struct roami_page *entry = roami_page_entry(node, page);

	*open_p = roami_page_access(node, page) == ROAM_WRITE || roami_page_dirty(node, page);
	if (!home_leaves(header))
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	if (bytes == NULL && atomic_load(&header->version) != *version_p) {
		atomic_fetch_or(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY);
		return false;
	}
	roami_page_close(node, &page, 1, ROAM_READ);
	if (*open_p)
		atomic_fetch_add(&header->version, 1);
	*version_p = atomic_load(&header->version);
	if (bytes != NULL)
		roami_page_copy(node, bytes, roami_page_bytes(node, page));
	roami_page_set_home(node, page, false);
	entry->heat = 0; /* never hot: there is no twin to compare with */
	if (*open_p)
		roami_page_mark_dirty(node, entry, page);
	return true;
}

#define CLOSE_RUN 16u

void roami_home_close_run(struct roami_node *node, uint32_t first, uint32_t count)
{
	uint32_t pages[CLOSE_RUN] = {0}, closing = 0;

	if (count > CLOSE_RUN)
		count = CLOSE_RUN;
	for (uint32_t page = first; page < first + count && page < node->layout.pages; page++) {
		roami_page_lock(node, page);
		if (!roami_page_pending(node, page) && roami_page_is_home(node, page) &&
		    roami_page_access(node, page) == ROAM_WRITE && roami_page_ours(node, page)) {
			pages[closing++] = page;
			continue;
		}
		roami_page_unlock(node, page);
		break;
	}
	roami_page_close(node, pages, closing, ROAM_READ);
	for (uint32_t i = 0; i < closing; i++) {
		roami_page_mark_dirty(node, roami_page_entry(node, pages[i]), pages[i]);
		roami_page_unlock(node, pages[i]);
	}
}

void roami_home_receive(struct roami_node *node, uint32_t page, uint64_t version, uint32_t place)
{
	struct roami_header *header = &node->self->headers[page];
	uint32_t marks = atomic_load(&header->where) & (ROAMI_HEADER_BLOCK | ROAMI_HEADER_BYTES);

	/* Others may have copies; they are not listed again. */
	atomic_fetch_or(&header->shared, ROAMI_SHARED | ROAMI_SHARED_LISTED);
	/* Who takes it for the home it was once may be about to look (roami_home_enter). */
	atomic_fetch_add(&header->version, version - ROAMI_VERSION(atomic_load(&header->version)));
	roami_page_set_home(node, page, true);
	if (roami_homes_of(node, page) == ROAM_HOMES_TAKEN)
		marks |= ROAMI_HEADER_OPEN;
	atomic_store(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY | marks |
					     ROAM_PLACE_EPOCH(place) << ROAMI_HEADER_EPOCH);
	ROAMI_COUNT(node->stats, home_moves, 1);
}
