#include "home/provisional.h"

#include <string.h>

#include "base/region.h"
#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/race.h"

#define CLAIMS_CALLS 16u

/* Which pages of a group are known to be untouched. */
struct roami_group {
	uint64_t untouched;
	uint64_t epoch;
};

static size_t group_bytes(const struct roami_node *node)
{
	return (node->layout.pages / ROAMI_GROUP + 1) * sizeof(struct roami_group);
}

static enum roam_err provisional_init(struct roami_node *node,
				      const struct roami_node_params *params)
{
	(void)params;
	atomic_store(&provisional_of(node)->epoch, 1);
	provisional_of(node)->groups = roami_os_reserve_sparse(group_bytes(node));
	return provisional_of(node)->groups != NULL ? ROAM_OK : ROAM_ENOMEM;
}

static void provisional_fini(struct roami_node *node)
{
	roami_os_vec_free(&provisional_of(node)->list, sizeof(uint32_t));
	roami_os_vec_free(&provisional_of(node)->work, sizeof(uint32_t));
	roami_os_unmap(provisional_of(node)->groups, group_bytes(node));
}

/* -------------------------------------------------------------------------------- what is known */

void roami_provisional_learn(struct roami_node *node, uint32_t first, uint32_t count,
			     const uint64_t *words, uint64_t epoch)
{
	struct roami_group *group = &provisional_of(node)->groups[first / ROAMI_GROUP];
	uint64_t untouched = 0;

	roami_assert(first % ROAMI_GROUP == 0 && count <= ROAMI_GROUP);
	for (uint32_t i = 0; i < count; i++)
		untouched |= (uint64_t)(words[i] == ROAMI_WORD_CREATOR) << i;
	roami_spin_lock(node, &provisional_of(node)->lock);
	if (group->epoch <= epoch)
		*group = (struct roami_group){untouched, epoch};
	roami_spin_unlock(&provisional_of(node)->lock);
}

/*
 * Lists the page if it is known to be untouched.  The page is listed first, the epoch checked
 * second; a thread that acquires does the reverse (roami_provisional_forget).
 */
static bool provisional_list(struct roami_node *node, uint32_t page)
{
	struct roami_provisional *provisional = provisional_of(node);
	const struct roami_group *group = &provisional->groups[page / ROAMI_GROUP];
	bool known;
	uint32_t *slot;

	roami_contract_pending(node, page);
	roami_spin_lock(node, &provisional->lock);
	known = (group->untouched >> page % ROAMI_GROUP & 1) != 0;
	slot = known ? roami_os_vec_grow(&provisional->list, sizeof(*slot), 1) : NULL;
	if (slot != NULL) {
		*slot = page;
		atomic_store(&provisional->count, (uint32_t)provisional->list.count + 1);
		roami_step(node);
		known = group->epoch == atomic_load(&provisional->epoch);
		provisional->list.count += known;
		if (!known)
			atomic_store(&provisional->count, (uint32_t)provisional->list.count);
	}
	roami_spin_unlock(&provisional->lock);
	return slot != NULL && known;
}

bool roami_page_provisional(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_pending(node, page);
	/*
	 * An acquire under ScC does not end provisional pages; RC's pages are never in a job under
	 * ScC.
	 */
	roami_assert(!roami_scoped(node));
	if (!node->reach[roami_manager(node, page)]->travels ||
	    !roami_page_wants_write(node, page) || atomic_load(&entry->home) != 0 || entry->here ||
	    roami_race_checked(node) || roami_creator_may_have(node, page) ||
	    roami_claim_expected(node, page) || !provisional_list(node, page))
		return false;
	entry->provisional = 1;
	roami_claim_passed(node, page);
	return true;
}

/* --------------------------------------------------------------------------------------- claims */

struct claims_ask {
	uint32_t first; /* of a group */
	uint32_t spare;
	uint64_t mask;
};

struct claims_answer {
	uint64_t granted;
	uint64_t words[ROAMI_GROUP];
};

struct claims_call {
	struct roami_call *call;
	struct claims_ask ask;
	struct claims_answer answer;
	uint64_t epoch;
};

static uint32_t group_pages(const struct roami_node *node, uint32_t first)
{
	uint32_t left = node->layout.pages - first;

	roami_contract(first < node->layout.pages && first % ROAMI_GROUP == 0);
	return left < ROAMI_GROUP ? left : ROAMI_GROUP;
}

static void claims_handle(struct roami_node *node, const struct roam_request *request)
{
	struct claims_ask ask;
	struct claims_answer answer = {0, {0}};
	struct roam_part part = {&answer, sizeof(answer)};
	uint32_t count;

	if (request->bytes != sizeof(ask))
		roami_node_fail(node, "node %u: malformed list of claims", request->from);
	memcpy(&ask, request->data, sizeof(ask));
	if (ask.first >= node->layout.pages || ask.first % ROAMI_GROUP != 0 ||
	    roami_manager(node, ask.first) != node->me)
		roami_node_fail(node, "node %u claimed pages not managed here", request->from);
	count = group_pages(node, ask.first);
	for (uint32_t i = 0; i < count; i++) {
		_Atomic uint64_t *word = &node->self->directory[ask.first + i];
		uint64_t nobody = ROAMI_WORD_CREATOR, theirs = ROAMI_WORD_READY | request->origin;

		if ((ask.mask >> i & 1) != 0 &&
		    roami_region_of(node, ask.first + i)->protocol->provisional != NULL &&
		    atomic_compare_exchange_strong(word, &nobody, theirs))
			answer.granted |= (uint64_t)1 << i;
		answer.words[i] = atomic_load(word);
	}
	roami_reply(node, request, &part, 1);
}

/* Begins to claim the first pages of the list that are in one group; returns how many. */
static size_t claims_begin(struct roami_node *node, struct claims_call *call,
			   const uint32_t *pages, size_t count)
{
	struct roam_part part = {&call->ask, sizeof(call->ask)};
	size_t taken = 0;

	roami_assert(count > 0);
	call->ask = (struct claims_ask){pages[0] / ROAMI_GROUP * ROAMI_GROUP, 0, 0};
	for (; taken < count && pages[taken] - call->ask.first < ROAMI_GROUP; taken++)
		call->ask.mask |= (uint64_t)1 << pages[taken] % ROAMI_GROUP;
	call->epoch = roami_provisional_epoch(node);
	call->call = roami_msg_call_start(node, roami_manager(node, call->ask.first),
					  roami_type(node, ROAMI_ROOM_PROVISIONAL, 0), &part, 1,
					  &call->answer, sizeof(call->answer));
	return taken;
}

static void claims_end(struct roami_node *node, struct claims_call *call)
{
	if (roami_msg_call_end(node, call->call) != sizeof(call->answer) ||
	    (call->answer.granted & ~call->ask.mask) != 0)
		roami_node_fail(node, "malformed reply to a list of claims");
	roami_words_learned(node, call->ask.first, group_pages(node, call->ask.first),
			    call->answer.words, call->epoch);
}

void roami_home_claim_each(struct roami_node *node, const uint32_t *pages, size_t count, bool *won)
{
	struct claims_call calls[CLAIMS_CALLS];
	size_t begun = 0, ended = 0;

	roami_wait_begin(node);
	while (ended < count) {
		unsigned used = 0;

		for (; used < CLAIMS_CALLS && begun < count; used++)
			begun += claims_begin(node, &calls[used], pages + begun, count - begun);
		for (unsigned i = 0; i < used; i++) {
			claims_end(node, &calls[i]);
			for (; ended < count && pages[ended] - calls[i].ask.first < ROAMI_GROUP;
			     ended++) {
				won[ended] = (calls[i].answer.granted >>
					      pages[ended] % ROAMI_GROUP & 1) != 0;
				ROAMI_COUNT(node->stats, claims, won[ended]);
			}
		}
	}
	roami_wait_end(node);
}

/* ------------------------------------------------------------------------------------- claiming */

void roami_provisional_won(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_contract(roami_page_entry(node, page)->provisional != 0);
	roami_page_entry(node, page)->provisional = 0;
}

void roami_provisional_given(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_pending(node, page);
	roami_contract(entry->provisional != 0);
	entry->provisional = 0;
	roami_page_mark_dirty(node, entry, page);
}

void roami_provisional_lost(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_pending(node, page);
	roami_contract(entry->provisional && entry->access != ROAM_WRITE);
	entry->provisional = 0;
	roami_twin_make(node, entry, page);
}

void roami_provisional_merge(struct roami_node *node, uint32_t page)
{
	static const _Alignas(64) uint8_t zero[ROAM_PAGE_SIZE];
	struct roami_page *entry = roami_page_entry(node, page);
	uint8_t *twin = roami_twin_bytes(node, entry->twin), *bytes = roami_page_bytes(node, page);
	uint8_t own[ROAMI_DIFF_BYTES_MAX];
	size_t made = pages_of(node)->diff->encode(own, twin, zero, ROAMI_PAGE);

	roami_contract_pending(node, page);
	roami_assert(entry->twin != 0);
	roami_page_copy(node, twin, bytes);
	pages_of(node)->diff->apply(bytes, NULL, own, made);
	roami_page_mark_dirty(node, entry, page);
}

/* Moves the list into `work`, ascending, each page once; returns how many. */
static size_t provisional_take(struct roami_node *node)
{
	struct roami_provisional *provisional = provisional_of(node);
	size_t count;

	roami_contract(provisional->claiming == 0);
	roami_spin_lock(node, &provisional->lock);
	count = roami_pages_take(node, &provisional->list, &provisional->work);
	atomic_store(&provisional->claiming, 1);
	atomic_store(&provisional->count, 0);
	roami_spin_unlock(&provisional->lock);
	return roami_pages_sort((void *)provisional->work.items, count);
}

/*
 * Makes some of the pages, all of one region, pending, and lists them in `held`; returns how many
 * of `pages` are dealt with.
 */
static size_t provisional_hold(struct roami_node *node, const uint32_t *pages, size_t count,
			       uint32_t *held, size_t *held_p)
{
	size_t at = 0;

	roami_assert(count > 0);
	for (*held_p = 0; at < count && *held_p < ROAM_PROVISIONAL_MAX; at++) {
		if (roami_region_of(node, pages[at]) != roami_region_of(node, pages[0]))
			break;
		roami_page_hold(node, pages[at]);
		if (roami_page_entry(node, pages[at])->provisional)
			held[(*held_p)++] = pages[at];
		else
			roami_page_done(node, pages[at]);
	}
	return at;
}

void roami_provisional_claim(struct roami_node *node)
{
	uint32_t held[ROAM_PROVISIONAL_MAX];
	const uint32_t *pages;
	size_t count, held_count;

	if (!roami_provisional_any(node))
		return;
	count = provisional_take(node);
	pages = (const void *)provisional_of(node)->work.items;
	while (count > 0) {
		struct roami_region *region = roami_region_of(node, *pages);
		size_t some = provisional_hold(node, pages, count, held, &held_count);
		unsigned was = roami_region_enter(node, region);

		roami_assert(region->protocol->provisional != NULL);
		region->protocol->provisional(node, held, held_count);
		roami_region_leave(node, was);
		pages += some;
		count -= some;
	}
	atomic_store(&provisional_of(node)->claiming, 0);
}

void roami_provisional_forget(struct roami_node *node)
{
	roami_contract(!roami_scoped(node) || provisional_of(node)->count == 0);
	atomic_fetch_add(&provisional_of(node)->epoch, 1);
	roami_step(node);
}

static const struct roam_message provisional_messages[] = {
	{"claims", claims_handle, sizeof(struct claims_ask)},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_provisional = {
	.name = "provisional",
	.messages = provisional_messages,
	.state_size = sizeof(struct roami_provisional),
	.init = provisional_init,
	.fini = provisional_fini,
};
