#include "base/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/layers.h"
#include "base/region.h"
#include "base/thread.h"
#include "home/provisional.h"
#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/race.h"
#include "sync/log.h"
#include "sync/sync.h"

#define NODE_MAGIC 0x726f616du

/* ------------------------------------------------------------------------------------- failure */

void roami_assert_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "roam: internal error: %s (%s:%d)\n", condition, file, line);
	abort();
}

void roami_node_fail(struct roami_node *node, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	node->env->fail(node, text);
	__builtin_unreachable();
}

_Static_assert(ROAMI_WAITS_MAX == ROAMI_THREADS_MAX, "each thread has its own");

void roami_node_waits(struct roami_node *node, unsigned kind, uint64_t id, unsigned of)
{
	struct roami_waiting *waiting = &node->self->ctl->waits[node->env->thread(node)];

	atomic_store_explicit(&waiting->id, id, memory_order_relaxed);
	atomic_store_explicit(&waiting->of, of, memory_order_relaxed);
	atomic_store_explicit(&waiting->turn,
			      atomic_load_explicit(&waiting->turn, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	atomic_store_explicit(&waiting->kind, kind, memory_order_release);
}

void roami_node_waits_tuple(struct roami_node *node, uint64_t id, unsigned of,
			    const uint64_t label[ROAMI_LABEL_WORDS])
{
	struct roami_waiting *waiting = &node->self->ctl->waits[node->env->thread(node)];

	for (unsigned i = 0; i < ROAMI_LABEL_WORDS; i++)
		atomic_store_explicit(&waiting->label[i], label[i], memory_order_relaxed);
	roami_node_waits(node, ROAMI_WAITS_TUPLE, id, of);
}

void roami_node_waits_no_more(struct roami_node *node)
{
	struct roami_waiting *waiting = &node->self->ctl->waits[node->env->thread(node)];

	atomic_store_explicit(&waiting->kind, 0, memory_order_release);
}

struct roami_slab *roami_node_slab(struct roami_node *node)
{
	uint32_t first = 0;
	struct roami_slab *room = roami_slab_take(&node->slabs, &first);

	if (room == NULL)
		roami_node_fail(node, "no memory for a buffer");
	return room;
}

uint64_t roami_now(struct roami_node *node)
{
	return node->env->now(node);
}

uint64_t roami_option(struct roami_node *node, const char *variable)
{
	const struct roami_option *option = roami_options_table;
	const uint8_t *field;

	while (option->variable != NULL && strcmp(option->variable, variable) != 0)
		option++;
	roami_assert(option->variable != NULL);
	field = (const uint8_t *)node->options + option->offset;
	switch (option->type) {
	case ROAMI_OPTION_CHOICE:
		return *(const unsigned *)(const void *)field;
	case ROAMI_OPTION_BOOL:
		return *(const bool *)(const void *)field;
	case ROAMI_OPTION_SIZE:
	case ROAMI_OPTION_UNSIGNED:
		return *(const uint64_t *)(const void *)field;
	default:
		roami_node_fail(node, "%s is not a number", variable);
	}
}

/* --------------------------------------------------------------------------------------- lists */

const struct roam_protocol *roami_protocol_find(const char *name)
{
	for (unsigned i = 0; roami_protocols[i] != NULL; i++)
		if (strcmp(roami_protocols[i]->name, name) == 0)
			return roami_protocols[i];
	return NULL;
}

bool roami_protocol_beside(const struct roam_protocol *own, const struct roam_protocol *region)
{
	return own->model != ROAM_MODEL_SCC || region->model != ROAM_MODEL_RC ||
	       region->acquire == NULL;
}

/* ---------------------------------------------------------------------------------------- life */

/* Core files hold the calls of the first 64 threads; room for those of 2,000 is large. */
static void node_spare_dump(struct roami_node *node)
{
	size_t first = offsetof(struct roami_node, msg.calls) +
		       64 * ROAMI_CALLS_EACH * sizeof(node->msg.calls[0]);
	size_t end = offsetof(struct roami_node, msg.calls) + sizeof(node->msg.calls);

	first = (first + ROAMI_PAGE - 1) & ~(size_t)(ROAMI_PAGE - 1);
	roami_os_dontdump((uint8_t *)node + first, (end - first) & ~(size_t)(ROAMI_PAGE - 1));
}

/* One twin more than there are pages: index 0 means none.  A node that is alone has none. */
static size_t twins_bytes(const struct roami_node *node)
{
	return node->nodes == 1 ? ROAMI_PAGE : (node->layout.pages + 1) * ROAMI_PAGE;
}

static enum roam_err node_memory(struct roami_node *node)
{
	size_t pages = node->layout.pages;

	node->table = roami_os_reserve_sparse(pages * sizeof(*node->table));
	node->twins.pool = roami_os_reserve_sparse(twins_bytes(node));
	node->engine_state = calloc(1, node->engine->state_size + 1);
	if (node->table == NULL || node->twins.pool == NULL || node->engine_state == NULL)
		return ROAM_ENOMEM;
	if (roami_race_init(node) != ROAM_OK || roami_creator_init(node) != ROAM_OK ||
	    roami_guess_init(node) != ROAM_OK)
		return ROAM_ENOMEM;
	return roami_sync_init(node);
}

static enum roam_err node_service(struct roami_node *node, const struct roami_service *service)
{
	if (service == NULL)
		return ROAM_OK;
	node->service_state = calloc(1, service->state_size);
	if (node->service_state == NULL)
		return ROAM_ENOMEM;
	node->service = service;
	roami_msg_register(node, ROAMI_TYPE_SERVICE, service->messages);
	return service->init(node);
}

static void node_identity(struct roami_node *node, const struct roami_node_params *params)
{
	node->magic = NODE_MAGIC;
	node->me = params->me;
	node->nodes = params->nodes;
	node->options = params->options;
	node->env = params->env;
	node->env_state = params->env_state;
	node->layout = params->layout;
	node->app = params->app;
	node->fd = params->fd;
	node->creator_pages = params->creator_pages;
	node->host_names = params->host_names;
	node->bells = params->bells;
	node->lock_records = (struct roami_records){params->layout.locks, params->layout.lock_slots,
						    (uint32_t)roami_lock_bytes(params->nodes)};
	node->meeting_records = (struct roami_records){
		params->layout.meetings, params->layout.meeting_slots,
		(uint32_t)(roami_meeting_bytes(params->nodes) +
			   roami_departure_bytes(params->nodes))};
	node->protocol = params->protocol;
	node->engine = params->engine;
	roami_reach_choose(node, params->near);
	node->notices = node->records ? &roami_notices_board : &roami_notices_messages;
	for (unsigned peer = 0; peer < params->nodes; peer++)
		if (params->bases[peer] != NULL)
			roami_segment_point(&node->segments[peer], &params->layout,
					    params->bases[peer]);
		else
			node->segments[peer].ctl = &params->peers[peer]->ctl;
	node->self = &node->segments[params->me];
	node->stats = &node->self->ctl->stats;
	atomic_store(&node->msg.delay_next, UINT64_MAX);
}

/* Makes room for the types of messages that the node will have, and registers the core's. */
static enum roam_err node_types(struct roami_node *node, const struct roami_node_params *params)
{
	unsigned types = roami_domains_types(&node->layout, params->protocol, params->regions);

	node->msg.types = calloc(types, sizeof(*node->msg.types));
	if (node->msg.types == NULL)
		return ROAM_ENOMEM;
	node->msg.types_max = types;
	roami_msg_register(node, ROAMI_TYPE_SYNC, roami_sync_messages);
	roami_msg_register(node, ROAMI_TYPE_MEMORY, roami_memory_messages);
	return ROAM_OK;
}

enum roam_err roami_node_open(struct roami_node **node_p, const struct roami_node_params *params)
{
	struct roami_node *node = roami_os_reserve(sizeof(*node));
	struct roami_view view = {params->app, NULL, params->layout.heap_bytes, params->fd,
				  params->layout.heap};
	enum roam_err err;

	if (node == NULL)
		return ROAM_ENOMEM;
	*node_p = node;
	node_spare_dump(node);
	node_identity(node, params);
	node->diff = roami_diff_choose(params->options->simd);
	if (node->diff == NULL)
		return ROAM_EUNSUPPORTED;
	err = node_types(node, params);
	if (err != ROAM_OK)
		return err;
	view.runtime = node->self->heap;
	err = node_memory(node);
	if (err == ROAM_OK)
		err = roami_domains_open(node, params->regions);
	if (err == ROAM_OK)
		err = roami_threads_open(node);
	if (err == ROAM_OK)
		err = roami_layers_open(node, params);
	if (err == ROAM_OK)
		err = node->engine->open(node->engine_state, &view, roami_fault_entry, node);
	if (err == ROAM_OK)
		err = roami_domains_init(node);
	if (err == ROAM_OK)
		err = node_service(node, params->service);
	return err;
}

void roami_node_dump(struct roami_node *node, uint32_t page)
{
	uint32_t part = page / ROAMI_DUMP_PAGES, bit = 1u << part % 32;
	size_t first = (size_t)part * ROAMI_DUMP_PAGES, count = ROAMI_DUMP_PAGES;

	if ((atomic_fetch_or(&node->dumped[part / 32], bit) & bit) != 0)
		return;
	if (count > node->layout.pages - first)
		count = node->layout.pages - first;
	roami_os_dump(node->table + first, count * sizeof(*node->table));
	for (unsigned i = 0; i < node->domain_count; i++)
		roami_domain_dump(node, &node->domains[i], first, first + count);
}

void roami_node_close(struct roami_node *node)
{
	size_t pages;

	if (node == NULL)
		return;
	pages = node->layout.pages;
	if (node->service != NULL)
		node->service->fini(node);
	free(node->service_state);
	roami_domains_close(node);
	if (node->engine_state != NULL)
		node->engine->close(node->engine_state);
	roami_layers_close(node);
	roami_sync_fini(node);
	roami_race_fini(node);
	roami_creator_fini(node);
	roami_guess_fini(node);
	roami_slabs_free(&node->slabs);
	roami_threads_close(node);
	roami_msg_fini(node);
	roami_log_fini(node);
	roami_os_vec_free(&node->dirty, sizeof(uint32_t));
	roami_os_vec_free(&node->dirty_work, sizeof(struct roam_dirty));
	roami_os_vec_free(&node->apply_work, sizeof(struct roam_notice));
	roami_os_vec_free(&node->note_work, sizeof(struct roam_notice));
	roami_os_vec_free(&node->page_work, sizeof(uint32_t));
	roami_os_vec_free(&node->frees, sizeof(struct roami_remote_free));
	roami_os_vec_free(&node->cache, sizeof(uint32_t));
	roami_os_vec_free(&node->twins.free, sizeof(uint32_t));
	roami_os_unmap(node->table, pages * sizeof(*node->table));
	roami_os_unmap(node->twins.pool, twins_bytes(node));
	free(node->engine_state);
	free(node->domains);
	free(node->msg.types);
	roami_os_unmap(node, sizeof(*node));
}
