/*
 * The commit token: a queue of nodes, as a lock's by messages.  A node asks node 0, which notes it
 * as the last one and sends the request on to the one before; that one gives the token away when it
 * is not committing.  So nodes get it in the order in which they asked, and the last committer
 * keeps it until another node asks.
 *
 * With ROAM_TX_COMMIT=pages a commit needs no token, and only a transaction that has lost too often
 * takes it.  That one then stops the commits of all other nodes, each of which answers when it has
 * none under way.
 */
#include "msg/msg.h"
#include "sync/sync.h"
#include "sync/tx.h"

enum { TOKEN_ASK, TOKEN_NEXT, TOKEN_GRANT, STOP, STOP_DONE, STOP_OVER };

#define TOKEN_KEEPER 0u /* the node that knows which one asked last; has the token at first */

static struct roami_tx_token *token_of(const struct roami_node *node)
{
	return &tx_of(node)->token;
}

static void token_send(struct roami_node *node, unsigned to, unsigned message, uint32_t asker)
{
	struct roam_part part = {&asker, sizeof(asker)};

	roami_assert(to < node->nodes);
	roami_msg_send(node, to, roami_type(node, ROAMI_ROOM_TX, message), &part, 1);
}

void roami_tx_token_open(struct roami_node *node)
{
	token_of(node)->here = node->me == TOKEN_KEEPER;
	token_of(node)->tail = TOKEN_KEEPER;
}

/* Gives the token to the next node, if one waits and this node does not need it. */
static void token_pass(struct roami_node *node, struct roami_tx_token *token)
{
	unsigned next = token->next;

	roami_contract(roami_spin_held(&token->spin));
	if (!token->here || token->busy || token->wanted || next == 0)
		return;
	token->here = false;
	token->next = 0;
	ROAMI_COUNT(node->stats, tx_tokens, 1);
	token_send(node, next - 1, TOKEN_GRANT, next - 1);
}

/* `asker` comes after this node. */
static void token_follow(struct roami_node *node, unsigned asker)
{
	struct roami_tx_token *token = token_of(node);

	roami_contract(asker < node->nodes);
	roami_spin_lock(node, &token->spin);
	if (token->next != 0 || asker == node->me || (!token->here && !token->asked))
		roami_node_fail(node, "node %u is sent on for a commit token by mistake", asker);
	token->next = asker + 1;
	token_pass(node, token);
	roami_spin_unlock(&token->spin);
}

/* At the keeper. */
static void token_queue(struct roami_node *node, unsigned asker)
{
	struct roami_tx_token *token = token_of(node);
	unsigned last;

	roami_contract(node->me == TOKEN_KEEPER && asker < node->nodes);
	roami_spin_lock(node, &token->spin);
	last = token->tail;
	token->tail = asker;
	roami_spin_unlock(&token->spin);
	if (last == node->me)
		token_follow(node, asker);
	else
		token_send(node, last, TOKEN_NEXT, asker);
}

static void token_ask(struct roami_node *node)
{
	roami_contract(token_of(node)->asked);
	if (node->me == TOKEN_KEEPER)
		token_queue(node, node->me);
	else
		token_send(node, TOKEN_KEEPER, TOKEN_ASK, node->me);
}

struct token_wait {
	struct roami_node *node;
	bool taken;
	bool doomed;
};

/* Takes the token if it is here.  A wait may ask again after it has: a doom comes too late then. */
static bool token_came(void *arg)
{
	struct token_wait *wait = arg;
	struct roami_tx_token *token = token_of(wait->node);

	if (wait->taken)
		return true;
	roami_spin_lock(wait->node, &token->spin);
	wait->doomed = tx_is_lost(wait->node);
	wait->taken = token->here && !wait->doomed;
	token->busy = wait->taken;
	if (wait->taken || wait->doomed)
		token->wanted = false;
	if (wait->doomed) /* a token that comes later goes on, or stays for the next attempt */
		token_pass(wait->node, token);
	roami_spin_unlock(&token->spin);
	return wait->taken || wait->doomed;
}

static void token_await(struct token_wait *wait, bool (*came)(void *arg))
{
	struct roami_node *node = wait->node;
	uint64_t start = roami_os_cycles(), cycles;

	roami_contract(!wait->taken && !wait->doomed);
	roami_node_waits(node, ROAM_SYNC_TX + 1, 0, 0);
	roami_wait(node, came, wait);
	roami_node_waits_no_more(node);
	cycles = roami_os_cycles() - start;
	ROAMI_COUNT(node->stats, tx_token_waits, 1);
	ROAMI_TIME(node->stats, lock, cycles);
	ROAMI_TIME_WITHIN(node->stats, token, cycles);
}

bool roami_tx_token_take(struct roami_node *node)
{
	struct roami_tx_token *token = token_of(node);
	struct token_wait wait = {node, false, false};
	bool asks;

	roami_contract(!token->busy && tx_has_turn(node));
	roami_spin_lock(node, &token->spin);
	token->wanted = true;
	asks = !token->here && !token->asked;
	token->asked = token->asked || asks;
	roami_spin_unlock(&token->spin);
	if (asks)
		token_ask(node);
	if (!token_came(&wait))
		token_await(&wait, token_came);
	return !wait.doomed;
}

void roami_tx_token_let(struct roami_node *node)
{
	struct roami_tx_token *token = token_of(node);

	roami_spin_lock(node, &token->spin);
	roami_contract(token->here && token->busy);
	token->busy = false;
	token_pass(node, token);
	roami_spin_unlock(&token->spin);
}

/* --------------------------------------------------------------------------- without the token */

static struct roami_tx_stop *stop_of(const struct roami_node *node)
{
	return &tx_of(node)->stop;
}

/* Begins the commit if no node stops it.  A wait may ask again after it has. */
static bool stop_none(void *arg)
{
	struct token_wait *wait = arg;
	struct roami_tx_stop *stop = stop_of(wait->node);

	if (wait->taken)
		return true;
	roami_spin_lock(wait->node, &stop->spin);
	wait->doomed = tx_is_lost(wait->node);
	wait->taken = stop->by == 0 && !wait->doomed;
	stop->commits = wait->taken;
	roami_spin_unlock(&stop->spin);
	return wait->taken || wait->doomed;
}

bool roami_tx_commit_begins(struct roami_node *node)
{
	struct token_wait wait = {node, false, false};

	roami_contract(!stop_of(node)->commits && tx_has_turn(node));
	if (!stop_none(&wait))
		token_await(&wait, stop_none);
	return !wait.doomed;
}

void roami_tx_commit_ends(struct roami_node *node)
{
	struct roami_tx_stop *stop = stop_of(node);

	roami_spin_lock(node, &stop->spin);
	roami_contract(stop->commits);
	stop->commits = false;
	for (; stop->owed != 0; stop->owed &= stop->owed - 1)
		token_send(node, (unsigned)__builtin_ctzll(stop->owed), STOP_DONE, node->me);
	roami_spin_unlock(&stop->spin);
}

static void stop_send_all(struct roami_node *node, unsigned message)
{
	for (unsigned to = 0; to < node->nodes; to++)
		if (to != node->me)
			token_send(node, to, message, node->me);
}

static bool stop_answered(void *arg)
{
	return atomic_load(&stop_of(arg)->running) == 0;
}

void roami_tx_stop_others(struct roami_node *node)
{
	roami_contract(token_of(node)->busy && stop_answered(node));
	atomic_store(&stop_of(node)->running, node->nodes - 1);
	stop_send_all(node, STOP);
	roami_node_waits(node, ROAM_SYNC_TX + 1, 0, 0);
	roami_wait(node, stop_answered, node);
	roami_node_waits_no_more(node);
}

void roami_tx_go_others(struct roami_node *node)
{
	roami_contract(token_of(node)->busy);
	stop_send_all(node, STOP_OVER);
}

/* ------------------------------------------------------------------------------------- messages */

/*
 * The node for which a request asks: its sender, or, if the keeper sent it, the node that it names.
 */
static unsigned token_node(struct roami_node *node, const struct roam_request *request)
{
	uint32_t asker = request->bytes == sizeof(asker) ? *(const uint32_t *)request->data
							 : UINT32_MAX;

	if (asker >= node->nodes)
		roami_node_fail(node, "node %u sent a malformed request for the commit token",
				request->from);
	return asker;
}

static void token_ask_handle(struct roami_node *node, const struct roam_request *request)
{
	roami_contract(roami_msg_polling(node));
	if (node->me != TOKEN_KEEPER || token_node(node, request) != request->from)
		roami_node_fail(node, "node %u asks for the commit token by mistake",
				request->from);
	token_queue(node, request->from);
}

static void token_next_handle(struct roami_node *node, const struct roam_request *request)
{
	roami_contract(roami_msg_polling(node));
	token_follow(node, token_node(node, request));
}

static void token_grant_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_tx_token *token = token_of(node);

	roami_contract(roami_msg_polling(node));
	roami_spin_lock(node, &token->spin);
	if (token_node(node, request) != node->me || token->here || !token->asked)
		roami_node_fail(node, "node %u sent a commit token that was not asked for",
				request->from);
	token->here = true;
	token->asked = false;
	token_pass(node, token);
	roami_spin_unlock(&token->spin);
	roami_changed(node, node->me);
}

/* Notes that the sender stops this node, or no more; returns whether a commit is under way. */
static bool stop_note(struct roami_node *node, const struct roam_request *request, bool stops)
{
	struct roami_tx_stop *stop = stop_of(node);
	uint64_t bit = roami_nodeset_bit(request->from);
	bool commits;

	roami_contract(roami_msg_polling(node));
	roami_spin_lock(node, &stop->spin);
	if (token_node(node, request) != request->from || request->from == node->me ||
	    ((stop->by & bit) != 0) == stops)
		roami_node_fail(node, "node %u stops commits by mistake", request->from);
	stop->by ^= bit;
	commits = stop->commits;
	if (stops && commits)
		stop->owed |= bit;
	roami_spin_unlock(&stop->spin);
	return commits;
}

static void stop_handle(struct roami_node *node, const struct roam_request *request)
{
	if (!stop_note(node, request, true))
		token_send(node, request->from, STOP_DONE, node->me);
}

static void stop_over_handle(struct roami_node *node, const struct roam_request *request)
{
	stop_note(node, request, false);
	roami_changed(node, node->me);
}

static void stop_done_handle(struct roami_node *node, const struct roam_request *request)
{
	_Atomic uint32_t *running = &stop_of(node)->running;

	roami_contract(roami_msg_polling(node));
	if (token_node(node, request) != request->from || atomic_load(running) == 0)
		roami_node_fail(node, "node %u answers what was not asked", request->from);
	if (atomic_fetch_sub(running, 1) == 1)
		roami_changed(node, node->me);
}

const struct roam_message roami_tx_messages[] = {
	[TOKEN_ASK] = {"ask", token_ask_handle, sizeof(uint32_t)},
	[TOKEN_NEXT] = {"next", token_next_handle, sizeof(uint32_t)},
	[TOKEN_GRANT] = {"grant", token_grant_handle, sizeof(uint32_t)},
	[STOP] = {"stop", stop_handle, sizeof(uint32_t)},
	[STOP_DONE] = {"stopped", stop_done_handle, sizeof(uint32_t)},
	[STOP_OVER] = {"go on", stop_over_handle, sizeof(uint32_t)},
	{NULL, NULL, 0},
};
