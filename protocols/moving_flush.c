/*
 * Diffs for homes that move: they are stored at the home, sent, or not needed because the home
 * comes here.
 */
#include "moving.h"

#define ASK_MIN 128u /* with a diff of so many bytes a node asks for the home */

/* A diff on its way; in the message it stands behind the head. */
struct moving_update {
	struct roam_dirty *dirty;
	struct moving_head *head;
	size_t bytes; /* of the diff */
	struct moving_answer answer;
};

/*
 * Stores a diff at the home of a page that is written again and again and whose home does not come
 * here; false: the diff must be sent.
 */
static bool update_put(struct roami_node *node, struct roam_dirty *dirty)
{
	uint32_t ref = moving_ref(node, dirty->page);

	roami_contract_pending(node, dirty->page);
	roami_assert(!dirty->home);
	if (!dirty->keep || ref == 0 || moving_page(node, dirty->page)->owed != 0 ||
	    !roami_flush_pinned(node, dirty, ROAM_HOME_REF_NODE(ref)))
		return false;
	home_answered(node, dirty, ref);
	return true;
}

/* Makes the diff of a dirty page, and its message at `out`; false: there is nothing to send. */
static bool update_make(struct roami_node *node, struct roam_dirty *dirty, uint8_t *out,
			struct moving_update *update)
{
	struct moving_page *data = moving_page(node, dirty->page);
	struct moving_head *head = (void *)out;
	size_t bytes = 0;

	roami_contract_pending(node, dirty->page);
	roami_contract(dirty->keep || roami_page_access(node, dirty->page) != ROAM_WRITE);
	*head = (struct moving_head){.page = dirty->page,
				     .ref = moving_ref(node, dirty->page),
				     .stay = dirty->keep || roami_checks_races(node),
				     .have = data->home.page.have};
	roami_page_lock(node, dirty->page);
	if (roami_page_has_twin(node, dirty->page))
		bytes = roami_diff_make(node, dirty->page, out + sizeof(*head), dirty->keep);
	roami_page_unlock(node, dirty->page);
	roami_diff_show(node, dirty->page, out + sizeof(*head), bytes);
	*update = (struct moving_update){.dirty = dirty, .head = head, .bytes = bytes};
	dirty->changed = bytes != 0;
	if (!dirty->changed) {
		/*
		 * Under ScC home_answered gives notice of such a page anyway, with the version that
		 * is here.
		 */
		dirty->changed = data->owed != 0 && roami_model(node) != ROAM_MODEL_SCC;
		dirty->version = data->owed;
		home_answered(node, dirty, head->ref);
	}
	data->owed = 0;
	return bytes != 0;
}

/*
 * Handles, now, requests parked for a page that has come with an answer: they may wait for other
 * updates of this node.
 */
static void update_answered(struct roami_node *node, const struct moving_update *update,
			    const struct roam_page_call *call)
{
	uint32_t page = update->head->page;

	roami_contract_pending(node, page);
	if (call->bytes != sizeof(update->answer))
		roami_node_fail(node, "page %u: malformed acknowledgement", page);
	roami_page_lock(node, page);
	if (update->answer.moved) {
		roami_twin_drop(node, page);
		moving_receive(node, page, update->answer.version, update->answer.ref);
	} else {
		moving_learn(node, page, update->answer.ref);
	}
	roami_page_unlock(node, page);
	if (update->answer.moved)
		roami_page_unpark(node, page);
}

/* Sends all updates, with or without their diffs; on return the homes' answers are there. */
static void update_call(struct roami_node *node, struct moving_update **updates, unsigned count,
			unsigned type)
{
	struct roam_page_call calls[MOVING_ONCE];
	bool done[MOVING_ONCE] = {false};
	unsigned left = count;

	roami_assert(count <= MOVING_ONCE);
	for (unsigned i = 0; i < count; i++)
		calls[i] = (struct roam_page_call){
			.page = updates[i]->head->page,
			.to = ROAM_HOME_REF_NODE(updates[i]->head->ref),
			.type = type,
			.part = {updates[i]->head,
				 sizeof(struct moving_head) +
					 (type == MOVING_DIFF ? updates[i]->bytes : 0)},
			.reply = &updates[i]->answer,
			.reply_max = sizeof(updates[i]->answer),
		};
	roami_pages_ask(node, calls, count);
	while (left > 0) {
		left = roami_pages_await(node, calls, count);
		for (unsigned i = 0; i < count; i++) {
			if (done[i] || calls[i].started != NULL)
				continue;
			done[i] = true;
			update_answered(node, updates[i], &calls[i]);
		}
	}
}

/*
 * Asks to be home of pages with long diffs, which then need not be sent.  Returns how many updates
 * are left.
 */
static unsigned update_ask(struct roami_node *node, const struct roam_sync *sync,
			   struct moving_update **updates, unsigned count)
{
	struct moving_update *asks[MOVING_ONCE];
	unsigned asked = 0, left = 0;

	roami_assert(count <= MOVING_ONCE);
	for (unsigned i = 0; i < count; i++)
		if (!updates[i]->head->stay && updates[i]->bytes >= ASK_MIN &&
		    !moving_page(node, updates[i]->head->page)->refused)
			asks[asked++] = updates[i];
	update_call(node, asks, asked, MOVING_ASK);
	for (unsigned i = 0; i < asked; i++)
		moving_page(node, asks[i]->head->page)->refused = asks[i]->answer.moved == 0;
	for (unsigned i = 0; i < count; i++)
		if (updates[i]->answer.moved)
			home_written(node, sync, updates[i]->dirty->page);
		else
			updates[left++] = updates[i];
	return left;
}

/*
 * Sends the updates and gives notice; the actual homes acknowledge, wherever the diffs found them.
 */
static void update_send(struct roami_node *node, const struct roam_sync *sync,
			struct moving_update *all, unsigned count, bool asks)
{
	struct moving_update *updates[MOVING_ONCE];

	for (unsigned i = 0; i < count; i++)
		updates[i] = &all[i];
	if (asks)
		count = update_ask(node, sync, updates, count);
	update_call(node, updates, count, MOVING_DIFF);
	for (unsigned i = 0; i < count; i++) {
		updates[i]->dirty->version = updates[i]->answer.version;
		home_answered(node, updates[i]->dirty, updates[i]->answer.ref);
	}
}

static void flush_all(struct roami_node *node, const struct roam_sync *sync,
		      struct roam_dirty *dirty, size_t count, bool asks)
{
	struct moving_update updates[MOVING_ONCE];
	unsigned made = 0;

	for (size_t i = 0; i < count; i++) {
		uint8_t *out = roami_scratch(node) + made * MOVING_DIFF_MAX;

		if (dirty[i].home) {
			moving_page(node, dirty[i].page)->owed = 0;
			home_written(node, sync, dirty[i].page);
		} else if (!update_put(node, &dirty[i]) &&
			   update_make(node, &dirty[i], out, &updates[made]) &&
			   ++made == MOVING_ONCE) {
			update_send(node, sync, updates, made, asks);
			made = 0;
		}
	}
	update_send(node, sync, updates, made, asks);
}

void moving_flush(struct roami_node *node, const struct roam_sync *sync, struct roam_dirty *dirty,
		  size_t count)
{
	flush_all(node, sync, dirty, count, false);
}

void moving_flush_asking(struct roami_node *node, const struct roam_sync *sync,
			 struct roam_dirty *dirty, size_t count)
{
	flush_all(node, sync, dirty, count, true);
}
