/* Finding and claiming homes at managers reached by messages: see reach.h. */
#include <string.h>

#include "base/region.h"
#include "base/thread.h"
#include "home/provisional.h"
#include "home/reach.h"
#include "home/remote.h"
#include "page/page.h"
#include "page/prefetch.h"

/* -------------------------------------------------------------------------------------- looking */

/* Learns from the words around a page; returns the page's own. */
static uint64_t words_around_learned(struct roami_node *node, uint32_t page, const uint64_t *words,
				     uint64_t epoch)
{
	uint32_t first, count = roami_words_around(node, page, &first);

	roami_contract(page < node->layout.pages);
	roami_words_learned(node, first, count, words, epoch);
	return words[page - first];
}

uint64_t roami_far_look(struct roami_node *node, uint32_t page)
{
	uint64_t words[ROAMI_GROUP], epoch = roami_provisional_epoch(node);
	uint32_t first, count = roami_words_around(node, page, &first);

	roami_assert(roami_manager(node, page) != node->me);
	roami_words_read(node, first, count, words);
	return words_around_learned(node, page, words, epoch);
}

/* ------------------------------------------------------------------------------------- claiming */

/* Messages. */
enum { CLAIMS_CLAIM, CLAIMS_PUBLISH };

static unsigned claims_type(const struct roami_node *node, unsigned message)
{
	return roami_type(node, ROAMI_ROOM_CLAIMS, message);
}

struct claim_ask {
	uint32_t first;
	int32_t stride;
	uint32_t count;
	uint32_t touched; /* the first page is being touched; else it continues a run */
};

struct claim_answer {
	uint32_t granted;
	uint32_t spare;
	uint64_t words[ROAMI_GROUP]; /* around the page, with a stride of 0 */
};

static size_t claim_answer_bytes(const struct roami_node *node, const struct claim_ask *ask)
{
	uint32_t first, words = ask->stride == 0 ? roami_words_around(node, ask->first, &first) : 0;

	return offsetof(struct claim_answer, words) + words * sizeof(uint64_t);
}

/* Sends a claim to its manager; returns how many pages it grants. */
static uint32_t claim_call(struct roami_node *node, unsigned manager, const struct claim_ask *ask,
			   struct claim_answer *answer)
{
	struct roam_part part = {ask, sizeof(*ask)};

	roami_assert(ask->count > 0 && ask->count <= ROAMI_CLAIM_RUN && manager != node->me);
	if (roami_msg_call(node, manager, claims_type(node, CLAIMS_CLAIM), &part, 1, answer,
			   sizeof(*answer)) != claim_answer_bytes(node, ask) ||
	    answer->granted > ask->count)
		roami_node_fail(node, "node %u: malformed reply to a claim", manager);
	return answer->granted;
}

/*
 * Claims a run from `first` on, of pages that are made pending; returns how many the manager
 * grants. `touched`: the first page is pending already.
 */
static uint32_t claim_ask_run(struct roami_node *node, uint32_t first, int32_t stride,
			      uint32_t most, bool touched)
{
	struct claim_ask ask = {first, stride, touched, touched};
	struct claim_answer answer;
	uint32_t granted = 0;
	unsigned manager = roami_manager(node, first);

	roami_contract(!touched || roami_page_pending(node, first));
	roami_assert(most <= ROAMI_CLAIM_RUN);
	for (; ask.count < most; ask.count++) {
		int64_t next = (int64_t)first + (int64_t)stride * ask.count;

		if (!roami_claim_goes_on(node, first, next) ||
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

/* Claims a page that continues a run, and the pages expected after it. */
static bool claim_at_once(struct roami_node *node, uint32_t page)
{
	struct roami_streams *claims = &roami_thread_self(node)->claims;
	struct roami_stream *run = roami_prefetch_claims_expect(claims, page);
	uint32_t most;

	roami_contract_pending(node, page);
	if (run == NULL || run->ahead == 0)
		return false;
	most = roami_prefetch_claim(run, page, ROAMI_CLAIM_RUN);
	run->granted = claim_ask_run(node, page, run->stride, 1 + most, true);
	roami_claim_fill(node, page, run->granted, run->stride);
	return run->granted > 0;
}

/* Claims a page without looking first; returns its word, and learns from the words around it. */
static uint64_t claim_or_find(struct roami_node *node, uint32_t page, bool *claimed_p)
{
	struct claim_ask ask = {page, 0, 1, 1};
	struct claim_answer answer;
	uint64_t epoch = roami_provisional_epoch(node);

	roami_contract_pending(node, page);
	*claimed_p = claim_call(node, roami_manager(node, page), &ask, &answer) == 1;
	if (*claimed_p)
		roami_claim_fill(node, page, 1, 1);
	return words_around_learned(node, page, answer.words, epoch);
}

uint64_t roami_far_claim(struct roami_node *node, uint32_t page, bool first, bool *claimed_p)
{
	*claimed_p = first && claim_at_once(node, page);
	return *claimed_p ? 0 : claim_or_find(node, page, claimed_p);
}

uint32_t roami_far_claim_run(struct roami_node *node, uint32_t page, int32_t stride, uint32_t most)
{
	roami_contract(stride != 0 && most < ROAMI_CLAIM_RUN);
	return claim_ask_run(node, page + (uint32_t)stride, stride, most, false);
}

/* Whether `page` is in the block of the page one stride before it. */
static bool claim_continues(struct roami_node *node, uint32_t page, int32_t stride)
{
	int64_t last = (int64_t)page - stride;

	return roami_claim_goes_on(node, page, last) &&
	       roami_claim_same_block(node, (uint32_t)last, page);
}

static void claim_handle(struct roami_node *node, const struct roam_request *request)
{
	struct claim_ask ask;
	uint64_t theirs;
	struct claim_answer answer;
	struct roam_part part = {&answer, 0};
	uint32_t granted = 0, first, words;

	if (request->bytes != sizeof(ask))
		roami_node_fail(node, "node %u: malformed claim", request->from);
	memcpy(&ask, request->data, sizeof(ask));
	if (ask.count > ROAMI_CLAIM_RUN || ask.first >= node->layout.pages ||
	    ask.stride > ROAMI_PREFETCH_STRIDE_MAX || ask.stride < -ROAMI_PREFETCH_STRIDE_MAX)
		roami_node_fail(node, "node %u claimed pages beyond the heap", request->from);
	theirs = roami_claim_word(node, ask.first, request->origin, true);
	for (; granted < ask.count; granted++) {
		int64_t next = (int64_t)ask.first + (int64_t)ask.stride * granted;
		uint64_t nobody = ROAMI_WORD_CREATOR;

		if (!roami_claim_goes_on(node, ask.first, next) ||
		    roami_manager(node, (uint32_t)next) != node->me ||
		    ((granted > 0 || !ask.touched) &&
		     !claim_continues(node, (uint32_t)next, ask.stride)) ||
		    !atomic_compare_exchange_strong(&node->self->directory[next], &nobody, theirs))
			break;
	}
	answer.granted = granted;
	answer.spare = 0;
	words = roami_words_around(node, ask.first, &first);
	for (uint32_t i = 0; ask.stride == 0 && i < words; i++)
		answer.words[i] = atomic_load(&node->self->directory[first + i]);
	part.bytes = claim_answer_bytes(node, &ask);
	roami_reply(node, request, &part, 1);
}

/* ----------------------------------------------------------------------------------- publishing */

/*
 * No node waits for the message: a node that finds the page claimed looks again, or the word has
 * said READY since the claim.
 */
void roami_far_publish(struct roami_node *node, unsigned manager, const struct roami_publish *run)
{
	struct roam_part part = {run, sizeof(*run)};

	roami_assert(manager != node->me && run->count > 0);
	if (roami_homes_of(node, run->first) != ROAM_HOMES_FIXED)
		roami_msg_send(node, manager, claims_type(node, CLAIMS_PUBLISH), &part, 1);
}

static void publish_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_publish run;
	int64_t page;

	if (request->bytes != sizeof(run))
		roami_node_fail(node, "node %u: malformed list of homes", request->from);
	memcpy(&run, request->data, sizeof(run));
	page = run.first;
	for (uint32_t i = 0; i < run.count; i++, page += run.stride)
		if (i >= ROAMI_CLAIM_RUN || page < 0 || page >= node->layout.pages ||
		    roami_manager(node, (uint32_t)page) != node->me)
			roami_node_fail(node, "node %u published pages that are not managed here",
					request->from);
	roami_publish_words(node, request->from, &run);
}

static const struct roam_message claims_messages[] = {
	[CLAIMS_CLAIM] = {"claim", claim_handle, sizeof(struct claim_ask)},
	[CLAIMS_PUBLISH] = {"publish", publish_handle, sizeof(struct roami_publish)},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_claims = {.name = "claims", .messages = claims_messages};
