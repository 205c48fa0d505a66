#include "base/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------- failure */

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

void roami_node_waits_cleared(struct roami_node *node)
{
	struct roami_waiting *waiting = &node->self->ctl->waits[node->env->thread(node)];

	atomic_store(&waiting->kind, 0);
}

void roami_node_waits_no_more(struct roami_node *node)
{
	roami_node_waits_cleared(node);
	if (node->gate != NULL)
		node->gate(node);
}

struct roami_slab *roami_node_slab(struct roami_node *node)
{
	uint32_t first = 0;
	struct roami_slab *room = roami_slab_take(node->rooms[ROAMI_ROOM_SLABS].state, &first);

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
	if (own != region && (roami_homes_everywhere(own) || roami_homes_everywhere(region) ||
			      own->transactions != NULL || region->transactions != NULL))
		return false;
	return own->model != ROAM_MODEL_SCC || region->model != ROAM_MODEL_RC ||
	       region->acquire == NULL;
}

/* ------------------------------------------------------------------------------------- buffers */

static void slabs_fini(struct roami_node *node)
{
	roami_slabs_free(node->rooms[ROAMI_ROOM_SLABS].state);
}

const struct roami_room roami_room_slabs = {
	.name = "slabs",
	.state_size = sizeof(struct roami_slabs),
	.fini = slabs_fini,
};
