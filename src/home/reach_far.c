/* Peers reached by messages: see reach.h. */
#include "home/card.h"
#include "home/home_state.h"
#include "home/raw.h"
#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/race.h"

static unsigned directory_type(const struct roami_node *node, unsigned message)
{
	return roami_type(node, ROAMI_ROOM_DIRECTORY, message);
}

static unsigned parts_type(const struct roami_node *node, unsigned message)
{
	return roami_type(node, ROAMI_ROOM_PARTS, message);
}

/* ----------------------------------------------------------------------------- directory words */

static uint64_t far_word(struct roami_node *node, unsigned manager,
			 const struct roami_word_op *op)
{
	struct roam_part part = {op, sizeof(*op)};
	uint64_t found;

	roami_assert(manager != node->me);
	roami_msg_call(node, manager, directory_type(node, ROAMI_DIRECTORY_WORD), &part, 1, &found,
		       sizeof(found));
	return found;
}

static void far_words(struct roami_node *node, unsigned manager, uint32_t first, uint32_t count,
		      uint64_t *words)
{
	struct roami_words_ask ask = {first, count};
	struct roam_part part = {&ask, sizeof(ask)};

	roami_assert(manager != node->me && count <= ROAMI_WORDS_MAX);
	if (roami_msg_call(node, manager, directory_type(node, ROAMI_DIRECTORY_WORDS), &part, 1,
			   words, count * sizeof(*words)) != count * sizeof(*words))
		roami_node_fail(node, "node %u: short reply to a directory read", manager);
}

/* Where blocks begin is known at their managers only. */
static bool far_block_begins(struct roami_node *node, unsigned manager, uint32_t page)
{
	(void)node, (void)manager, (void)page;
	return true;
}

/* --------------------------------------------------------------------------------------- pages */

/* Where page i of the batch goes. */
static uint8_t *far_fetch_to(struct roami_node *node, const struct roami_fetches *fetches,
			     unsigned i)
{
	roami_contract(i < fetches->count);
	return fetches->aside != NULL ? fetches->aside + i * ROAMI_PAGE
				      : roami_staging_buffer(node, fetches->list[i].page, i);
}

void roami_far_ask(struct roami_node *node, struct roami_fetches *fetches, unsigned i)
{
	const struct roam_fetch_one *one = &fetches->list[i];
	unsigned asked = fetches->asked++;

	fetches->asks[asked] = (struct roami_query){one->home,
						    one->page,
						    &fetches->heads[asked],
						    sizeof(fetches->heads[asked]),
						    far_fetch_to(node, fetches, i),
						    NULL};
}

static void far_fetch_begin(struct roami_node *node, const struct roami_reach *reach,
			    struct roami_fetches *fetches)
{
	unsigned first = fetches->asked;

	roami_assert(fetches->count <= ROAMI_CALLS_AT_ONCE);
	for (unsigned i = 0; i < fetches->count; i++)
		if (node->reach[fetches->list[i].home] == reach)
			roami_far_ask(node, fetches, i);
	roami_step(node);
	roami_msg_ask(node, roami_type(node, ROAMI_ROOM_FETCH, ROAMI_FETCH_PAGE),
		      fetches->asks + first, fetches->asked - first);
}

void roami_far_answer(struct roami_node *node, struct roami_fetches *fetches, unsigned i,
		      unsigned asked)
{
	struct roam_fetch_one *one = &fetches->list[i];
	struct roami_query *ask = &fetches->asks[asked];
	const struct roami_fetch_head *head = ask->reply;
	bool came;

	roami_contract_pending(node, one->page);
	roami_contract(asked < fetches->asked && ask->what == one->page);
	if (roami_msg_answer(node, ask, &came) != sizeof(*head) ||
	    came != (head->result <= ROAM_FETCH_OPEN))
		roami_node_fail(node, "node %u: malformed reply to a fetch", one->home);
	one->version = head->version;
	one->result = (enum roam_fetch)head->result;
	if (fetches->aside != NULL)
		return;
	if (came)
		roami_staging_add(node, &fetches->staging, one->page, i, ask->page,
				  roami_fetch_may_open(node, one->page));
	else
		roami_page_unmap(node, one->page);
}

static void far_fetch(struct roami_node *node, const struct roami_reach *reach,
		      struct roami_fetches *fetches)
{
	for (unsigned i = 0; i < fetches->count; i++)
		if (node->reach[fetches->list[i].home] == reach)
			roami_far_answer(node, fetches, i, fetches->answered++);
	roami_staging_end(node, &fetches->staging);
}

size_t roami_far_flush(struct roami_node *node, const struct roami_reach *reach,
		       struct roam_dirty *dirty, const uint16_t *homes, size_t count)
{
	size_t asks = 0;

	for (size_t i = 0; i < count; i++) {
		bool ours = !dirty[i].home && node->reach[homes[i]] == reach;

		if (dirty[i].home || ours)
			dirty[i].moved = false;
		if (dirty[i].home || ours)
			dirty[i].asks = ours;
		asks += ours;
	}
	return asks;
}

bool roami_far_flush_pinned(struct roami_node *node, struct roam_dirty *dirty, unsigned home)
{
	(void)node, (void)dirty, (void)home;
	return false;
}

static void far_adopt(struct roami_node *node, unsigned home, uint32_t page, const uint8_t *bytes)
{
	uint64_t word = page;
	struct roam_part parts[2] = {{&word, sizeof(word)},
				     {bytes, bytes != NULL ? ROAM_PAGE_SIZE : 0}};

	roami_assert(home != node->me && page < node->layout.pages);
	roami_msg_call(node, home, directory_type(node, ROAMI_DIRECTORY_ADOPT), parts, 2, NULL, 0);
}

static uint32_t far_take(struct roami_node *node, unsigned home, const struct roami_take *take)
{
	struct roam_part part = {take, sizeof(*take)};
	uint32_t epoch = 0;

	roami_assert(home != node->me && take->page < node->layout.pages);
	roami_msg_call(node, home, roami_type(node, ROAMI_ROOM_MIGRATE, ROAMI_MIGRATE_TAKE), &part,
		       1, &epoch, sizeof(epoch));
	return epoch;
}

static uint32_t far_where(const struct roami_node *node, unsigned home, uint32_t page)
{
	(void)node, (void)home, (void)page;
	return 0;
}

/* Out of reach: the caller fetches the page instead. */
static bool far_post_read(struct roami_node *node, unsigned writer, uint64_t ref, uint32_t mark,
			  void *data, size_t *bytes_p)
{
	(void)node, (void)writer, (void)ref, (void)mark, (void)data, (void)bytes_p;
	return false;
}

static void far_creator_copy(struct roami_node *node, struct roami_query *asks, unsigned count)
{
	struct roami_raw_head heads[ROAMI_CALLS_AT_ONCE];

	roami_assert(node->me != 0 && count <= ROAMI_CALLS_AT_ONCE);
	roami_raw_ask(node, asks, heads, count);
	for (unsigned i = 0; i < count; i++)
		roami_raw_answer(node, &asks[i]);
}

static void far_parts(struct roami_node *node, const struct roami_parts_ask *ask,
		      const struct roami_vclock *clock, struct roami_parts_answer *answer)
{
	struct roami_vclock_wire wire;
	struct roam_part parts[2] = {{ask, sizeof(*ask)}, {&wire, 0}};

	roami_assert(node->me != 0);
	if (clock != NULL)
		parts[1].bytes = roami_vclock_encode(clock, NULL, node->nodes, &wire);
	if (roami_msg_call(node, 0, parts_type(node, ROAMI_HEAP_PARTS_ASK), parts, 2, answer,
			   sizeof(*answer)) != sizeof(*answer))
		roami_node_fail(node, "node 0: malformed reply from the heap pool");
}

/*
 * No node waits for where a block begins: what this node claims or places comes to the manager
 * later.
 */
static void far_place(struct roami_node *node, unsigned manager,
		      const struct roami_placement *place)
{
	struct roam_part part = {place, sizeof(*place)};

	roami_assert(manager != node->me);
	if (place->policy != ROAM_PLACE_FIRST_TOUCH || place->option != 0)
		roami_msg_call(node, manager, parts_type(node, ROAMI_HEAP_PARTS_PLACE), &part, 1,
			       NULL, 0);
	else
		roami_placement_begins(node, manager, place);
}

/* The peer's own control page is mapped here. */
static bool ctl_mapped(const struct roami_node *node, unsigned peer)
{
	roami_assert(peer < node->nodes);
	return node->segments[peer].base != NULL;
}

static struct roami_call *far_tell(struct roami_node *node, unsigned peer, unsigned type,
				   const struct roam_part *part, bool at_once)
{
	roami_assert(peer != node->me && peer < node->nodes);
	if (ctl_mapped(node, peer))
		return NULL;
	if (at_once)
		return roami_msg_call_start(node, peer, type, part, 1, NULL, 0);
	roami_msg_send(node, peer, type, part, 1);
	return NULL;
}

static uint8_t *far_answer_buffer(struct roami_node *node, unsigned asker, uint32_t page,
				  uint8_t *spare)
{
	roami_contract(asker != node->me && spare != NULL);
	(void)node, (void)asker, (void)page;
	return spare;
}

/* A peer is told of a whole page, once. */
static void far_objects_set(struct roami_node *node, unsigned peer, uint32_t page, uint64_t bits,
			    bool announced, unsigned type)
{
	struct roam_part part = {&page, sizeof(page)};

	roami_assert(peer != node->me);
	(void)bits;
	if (!announced)
		roami_msg_call(node, peer, type, &part, 1, NULL, 0);
}

static void far_objects_clear(struct roami_node *node, unsigned peer, uint32_t page, uint64_t bits)
{
	(void)node, (void)peer, (void)page, (void)bits;
}

static bool far_block_unmark(struct roami_node *node, unsigned peer, uint64_t offset, unsigned type)
{
	struct roam_part part = {&offset, sizeof(offset)};
	uint8_t was = 0;

	roami_assert(peer != node->me);
	if (roami_msg_call(node, peer, type, &part, 1, &was, sizeof(was)) != sizeof(was))
		roami_node_fail(node, "node %u: malformed answer about a block", peer);
	return was != 0;
}

#define FAR                                                                                  \
	.travels = true, .word = far_word, .words = far_words, .look = roami_far_look,       \
	.claim = roami_far_claim, .claim_run = roami_far_claim_run,                          \
	.block_begins = far_block_begins, .publish = roami_far_publish,                      \
	.flush = roami_far_flush, .flush_pinned = roami_far_flush_pinned, .adopt = far_adopt, \
	.take = far_take, .where = far_where, .post_read = far_post_read,                    \
	.creator_has = roami_far_creator_has, .creator_copy = far_creator_copy,              \
	.parts = far_parts, .place = far_place, .tell = far_tell,                            \
	.answers = {ROAMI_ANSWER_PAGE, ROAMI_ANSWER_PAGE, far_answer_buffer},                \
	.objects_set = far_objects_set, .objects_clear = far_objects_clear,                  \
	.block_unmark = far_block_unmark

const struct roami_reach roami_reach_far = {
	.name = "far",
	FAR,
	.fetch_begin = far_fetch_begin,
	.fetch = far_fetch,
};

const struct roami_reach roami_reach_card = {
	.name = "card",
	.cards = true,
	FAR,
	.fetch_begin = roami_card_fetch_begin,
	.fetch = roami_card_fetch,
};

/* ------------------------------------------------------------------------------------ choosing */

/* Adds a kind of reach to the list, once. */
static void reach_list(struct roami_node *node, const struct roami_reach *reach)
{
	unsigned i = 0;

	roami_assert(reach != NULL);
	while (home_of(node)->reaches[i] != NULL && home_of(node)->reaches[i] != reach)
		i++;
	home_of(node)->reaches[i] = reach;
}

/* How a peer is reached whose segment is not mapped.  A home that checks races is told of all. */
static const struct roami_reach *reach_away(const struct roami_node *node,
					    const struct roami_node_params *params, unsigned peer)
{
	return (params->read >> peer & 1) != 0 && !roami_race_checked(node) ? &roami_reach_card
									    : &roami_reach_far;
}

static enum roam_err reach_init(struct roami_node *node, const struct roami_node_params *params)
{
	const struct roami_reach *loads =
		roami_race_checked(node) ? &roami_reach_checked : &roami_reach_near;

	roami_assert(node->nodes > 0 && node->nodes <= ROAMI_NODES_MAX);
	reach_list(node, loads);
	home_of(node)->near_all = true;
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		bool mapped = peer == node->me || (params->near >> peer & 1) != 0;

		node->reach[peer] = mapped ? loads : reach_away(node, params, peer);
		roami_msg_answers_set(node, peer, &node->reach[peer]->answers);
		reach_list(node, node->reach[peer]);
		home_of(node)->near_all &= mapped;
		home_of(node)->posts_on |= peer != node->me &&
					   node->reach[peer] == &roami_reach_near;
	}
	return ROAM_OK;
}

const void *roami_reach_choose(const struct roami_node *node, const void *records,
			       const void *messages)
{
	roami_assert(records != NULL && messages != NULL);
	return home_of(node)->near_all ? records : messages;
}

const void *roami_reach_choose_ctl(const struct roami_node *node, unsigned peer,
				   const void *mapped, const void *copied)
{
	roami_assert(mapped != NULL && copied != NULL);
	return ctl_mapped(node, peer) ? mapped : copied;
}

struct roami_ctl *roami_reach_copy(struct roami_node *node, unsigned peer)
{
	roami_contract(roami_msg_polling(node));
	if (ctl_mapped(node, peer))
		roami_node_fail(node, "node %u, whose control page is mapped, sent its state",
				peer);
	return node->segments[peer].ctl;
}

const struct roami_room roami_room_reach = {
	.name = "reach",
	.state_size = sizeof(struct roami_home),
	.init = reach_init,
};
