/*
 * Homes that are taken.  A node that has a current copy of a page makes itself the home, without
 * the home's CPU: the home's header says whether the home has the page open for writing, and the
 * version whether the copy is current.  The directory word follows at once; a node that reads it in
 * between reads it again.
 */
#include <string.h>

#include "base/region.h"
#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"

#define THERE (ROAM_HEADER_HOME | ROAM_HEADER_READY)

static struct roami_header *take_header(struct roami_node *node, uint32_t page)
{
	roami_contract(page < node->layout.pages);
	return &node->self->headers[page];
}

/* While a node checks whether it may take a page, the header says HOME but not READY. */
static uint32_t take_where(struct roami_node *node, struct roami_header *header)
{
	uint32_t where = atomic_load(&header->where);

	for (unsigned turn = 0; (where & THERE) == ROAM_HEADER_HOME; turn++) {
		node->env->spin(node, turn);
		where = atomic_load(&header->where);
	}
	return where;
}

/* ----------------------------------------------------------------------------- storing a diff */

bool roami_home_enter(struct roami_node *node, struct roami_header *header)
{
	/* Announce first, check second; a node that takes the page does the same. */
	while (atomic_fetch_add(&header->version, ROAMI_VERSION_BUSY),
	       roami_step(node), (atomic_load(&header->where) & THERE) != THERE) {
		atomic_fetch_sub(&header->version, ROAMI_VERSION_BUSY);
		if ((take_where(node, header) & ROAM_HEADER_HOME) == 0)
			return false;
	}
	return true;
}

uint64_t roami_home_leave(struct roami_header *header, bool changed)
{
	uint64_t add = (changed ? 1 : 0) - ROAMI_VERSION_BUSY;

	roami_assert(ROAMI_VERSION_HELD(atomic_load(&header->version)) >= ROAMI_VERSION_BUSY);
	return ROAMI_VERSION(atomic_fetch_add(&header->version, add) + add);
}

/* --------------------------------------------------------------------------------- at the home */

/*
 * OPEN and TWIN are already published; a diff writer announces itself, then checks them and backs
 * off, so wait only for those already inside.
 */
static void take_alone(struct roami_node *node, struct roami_header *header)
{
	roami_contract((atomic_load(&header->where) & ROAMI_HEADER_TWIN) != 0);
	for (unsigned turn = 0;
	     ROAMI_VERSION_HELD(atomic_load(&header->version)) >= ROAMI_VERSION_BUSY; turn++)
		roami_msg_pause(node, turn); /* the diff may come by message */
}

bool roami_home_open(struct roami_node *node, uint32_t page)
{
	struct roami_header *header = take_header(node, page);
	uint32_t where;

	roami_contract(roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	roami_contract_pending(node, page);
	do {
		where = take_where(node, header);
		if ((where & ROAM_HEADER_HOME) == 0)
			return false;
	} while (!atomic_compare_exchange_strong(&header->where, &where,
						 where | ROAMI_HEADER_OPEN));
	/* A node that is copying the page begins anew, and finds it open. */
	atomic_fetch_add(&header->shared, 1u << ROAMI_SHARED_BITS);
	roami_step(node);
	if ((where & ROAMI_HEADER_TWIN) != 0)
		take_alone(node, header);
	return true;
}

void roami_home_shut(struct roami_node *node, uint32_t page)
{
	struct roami_header *header = take_header(node, page);
	uint32_t marks = ROAMI_HEADER_OPEN | ROAMI_HEADER_WANTED;

	roami_contract(roami_page_access(node, page) != ROAM_WRITE);
	roami_contract((header->where & marks) == 0 ||
		       roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	roami_step(node);
	if ((atomic_load(&header->where) & marks) != 0)
		atomic_fetch_and(&header->where, ~marks);
}

void roami_home_twin(struct roami_node *node, uint32_t page, bool twin)
{
	struct roami_header *header = take_header(node, page);

	roami_assert(roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	roami_contract_pending(node, page);
	roami_page_set_twins(node, page, twin);
	if (!twin) {
		atomic_fetch_and(&header->where, ~ROAMI_HEADER_TWIN);
		return;
	}
	if ((atomic_fetch_or(&header->where, ROAMI_HEADER_TWIN) & ROAMI_HEADER_TWIN) != 0)
		return;
	/* A node that is copying the page begins anew, and sets WANTED. */
	atomic_fetch_add(&header->shared, 1u << ROAMI_SHARED_BITS);
	roami_page_cool(node, page); /* a node that fetches it while it is closed can be updated */
	take_alone(node, header);
}

bool roami_home_twinned(struct roami_node *node, unsigned home, uint32_t page)
{
	roami_assert(home < node->nodes);
	return (node->reach[home]->where(node, home, page) & ROAMI_HEADER_TWIN) != 0;
}

bool roami_home_wanted(struct roami_node *node, uint32_t page)
{
	return (atomic_load(&take_header(node, page)->where) & ROAMI_HEADER_WANTED) != 0;
}

void roami_home_say_read(struct roami_node *node, unsigned home, uint32_t page)
{
	struct roami_header *header = &node->segments[home].headers[page];
	uint32_t where;
	uint64_t version;

	roami_assert(roami_homes_of(node, page) == ROAM_HOMES_TAKEN && home != node->me);
	where = atomic_load_explicit(&header->where, memory_order_relaxed);
	version = atomic_load_explicit(&header->version, memory_order_relaxed);
	if ((where & ROAMI_HEADER_TWIN) != 0 && (version & ROAMI_VERSION_READ) == 0)
		atomic_fetch_or(&header->version, ROAMI_VERSION_READ);
}

bool roami_home_read(struct roami_node *node, uint32_t page)
{
	roami_assert(roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	return (atomic_fetch_and(&take_header(node, page)->version, ~ROAMI_VERSION_READ) &
		ROAMI_VERSION_READ) != 0;
}

/*
 * Whether a copy just fetched will be invalidated by its home's next release, because the home has
 * the page open; as far as is known without a message.
 */
static bool copy_is_brief(const struct roami_node *node, uint32_t page)
{
	unsigned home = atomic_load_explicit(&node->table[page].home, memory_order_relaxed) - 1u;

	return home < node->nodes && home != node->me &&
	       (node->reach[home]->where(node, home, page) & ROAMI_HEADER_OPEN) != 0;
}

bool roami_home_lost(struct roami_node *node, uint32_t page, uint64_t *version_p)
{
	struct roami_header *header = take_header(node, page);

	roami_contract(roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	roami_contract_locked(node, page);
	if (!roami_page_is_home(node, page) ||
	    (atomic_load(&header->where) & ROAM_HEADER_HOME) != 0)
		return false;
	roami_page_set_home(node, page, false);
	roami_page_set_twins(node, page, false);
	roami_page_entry(node, page)->home = 0;
	roami_page_cool(node, page); /* never hot: there is no twin to compare with */
	*version_p = ROAMI_VERSION(atomic_load(&header->version));
	return true;
}

/* ------------------------------------------------------------------------------------- taking */

uint32_t roami_take_yield(struct roami_node *node, struct roami_header *header, uint64_t have)
{
	uint32_t where = atomic_load(&header->where);
	uint32_t epoch = ROAM_HOME_REF_EPOCH(where) + 1;

	roami_contract(ROAMI_VERSION(have) == have);
	if ((where & ROAM_HEADER_HOME) == 0)
		return ROAMI_TAKE_GONE;
	if ((where & ROAM_HEADER_READY) == 0 || epoch >= ROAM_EPOCH_MAX)
		return 0;
	if ((where & ROAMI_HEADER_OPEN) != 0) {
		if ((where & ROAMI_HEADER_WANTED) == 0)
			atomic_fetch_or(&header->where, ROAMI_HEADER_WANTED);
		return 0;
	}
	if (!atomic_compare_exchange_strong(&header->where, &where,
					    where & ~ROAM_HEADER_READY))
		return 0;
	roami_step(node);
	if (ROAMI_VERSION_HELD(atomic_load(&header->version)) != have) { /* or a diff is stored */
		atomic_fetch_or(&header->where, ROAM_HEADER_READY);
		return 0;
	}
	atomic_fetch_and(&header->where,
			 ~(ROAM_HEADER_HOME | ROAMI_HEADER_WANTED | ROAMI_HEADER_TWIN));
	return epoch;
}

static void take_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_take ask = {UINT32_MAX, 0, 0};
	uint32_t epoch;
	struct roam_part part = {&epoch, sizeof(epoch)};

	if (request->bytes == sizeof(ask))
		memcpy(&ask, request->data, sizeof(ask));
	if (ask.page >= node->layout.pages ||
	    roami_homes_of(node, ask.page) != ROAM_HOMES_TAKEN)
		roami_node_fail(node, "node %u: malformed request to take a home", request->from);
	epoch = roami_take_yield(node, take_header(node, ask.page), ask.have);
	roami_reply(node, request, &part, 1);
}

static uint32_t take_ask(struct roami_node *node, unsigned home, const struct roami_take *take)
{
	roami_assert(home < node->nodes && home != node->me);
	roami_step(node);
	return node->reach[home]->take(node, home, take);
}

bool roami_home_take(struct roami_node *node, uint32_t page, uint64_t have)
{
	struct roami_take take = {page, 0, have};
	uint64_t was;
	unsigned home;
	uint32_t epoch;

	roami_assert(roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	roami_contract_pending(node, page);
	home = roami_home_lookup(node, page);
	while (home == node->me || (epoch = take_ask(node, home, &take)) == ROAMI_TAKE_GONE)
		home = roami_home_again(node, page);
	if (epoch == 0)
		return false;
	roami_page_lock(node, page);
	roami_home_receive(node, page, have, ROAM_HOME_REF(node->me, epoch));
	roami_page_entry(node, page)->home = (uint16_t)(node->me + 1);
	roami_page_unlock(node, page);
	was = roami_word_swap(node, page, ROAMI_WORD_READY | home, ROAMI_WORD_READY | node->me);
	if (was != (ROAMI_WORD_READY | home))
		roami_node_fail(node, "page %u: its directory word changed while taken", page);
	return true;
}

unsigned roami_home_again(struct roami_node *node, uint32_t page)
{
	unsigned home, turn = 0;

	roami_contract(roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	do {
		roami_page_entry(node, page)->home = 0;
		roami_msg_pause(node, turn++);
		home = roami_home_lookup(node, page);
	} while (home == node->me);
	return home;
}

static const struct roam_message migrate_messages[] = {
	[ROAMI_MIGRATE_TAKE] = {"take", take_handle, sizeof(struct roami_take)},
	{NULL, NULL, 0},
};

static enum roam_err migrate_init(struct roami_node *node, const struct roami_node_params *params)
{
	(void)params;
	pages_of(node)->copy_is_brief = copy_is_brief;
	return ROAM_OK;
}

const struct roami_room roami_room_migrate = {
	.name = "migrate",
	.messages = migrate_messages,
	.init = migrate_init,
};
