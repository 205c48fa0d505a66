#include "base/region.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"

static size_t domain_data_bytes(const struct roami_node *node, const struct roami_domain *domain)
{
	return (domain->end - domain->first) * roami_page_state_bytes(node, domain->protocol) + 1;
}

uint8_t *roami_scratch(struct roami_node *node)
{
	const struct roami_domain *domain = roami_domain_current(node);

	return roami_thread_room(node, 1 + (unsigned)(domain - node->domains),
				 node->nodes * domain->protocol->scratch_size);
}

static enum roam_err domain_open(struct roami_node *node, struct roami_domain *domain)
{
	domain->page_data = roami_os_reserve_sparse(domain_data_bytes(node, domain));
	domain->state = calloc(1, domain->protocol->node_size + 1);
	return domain->page_data != NULL && domain->state != NULL ? ROAM_OK : ROAM_ENOMEM;
}

/* The protocol starts, or ends, in its domain. */
static void domain_init(struct roami_node *node, struct roami_domain *domain)
{
	unsigned was;

	if (domain->protocol == NULL)
		return;
	was = roami_domain_enter(node, domain);
	if (!roami_protocol_beside(node->protocol, domain->protocol))
		domain->err = ROAM_EUNSUPPORTED;
	else if (domain->protocol->init != NULL)
		domain->err = domain->protocol->init(node);
	roami_domain_leave(node, was);
}

static void domain_fini(struct roami_node *node, struct roami_domain *domain)
{
	unsigned was = roami_domain_enter(node, domain);

	if (domain->protocol->fini != NULL && domain->state != NULL)
		domain->protocol->fini(node);
	roami_domain_leave(node, was);
}

/* From here to there the calling thread is alone, and what it enters is not yet in use. */
static void domains_alone(struct roami_node *node, bool begin)
{
	atomic_store(&node->several, begin);
	for (unsigned i = 0; i < node->domain_count; i++)
		atomic_store(&node->domains[i].active, begin || i == 0);
}

static enum roam_err domains_open(struct roami_node *node, const struct roami_node_params *params)
{
	const struct roam_protocol *const *regions = params->regions;
	const struct roami_layout *layout = &node->layout;
	unsigned count = 1 + layout->regions;
	enum roam_err err = ROAM_OK;

	node->domains = calloc(count, sizeof(*node->domains));
	if (node->domains == NULL)
		return ROAM_ENOMEM;
	node->domain_count = count;
	for (unsigned i = 0; i < count && err == ROAM_OK; i++) {
		struct roami_domain *domain = &node->domains[i];

		domain->protocol = i == 0 ? node->protocol : regions[i - 1];
		if (domain->protocol == NULL)
			continue;
		domain->first = (uint32_t)(roami_layout_base(layout, i) / ROAMI_PAGE);
		domain->end = (uint32_t)(roami_layout_bytes(layout, i) / ROAMI_PAGE);
		domain->end += domain->first;
		err = domain_open(node, domain);
	}
	return err;
}

enum roam_err roami_domains_init(struct roami_node *node)
{
	domains_alone(node, true);
	for (unsigned i = 0; i < node->domain_count; i++)
		domain_init(node, &node->domains[i]);
	domains_alone(node, false);
	return node->domains[0].err;
}

void roami_domains_fini(struct roami_node *node)
{
	domains_alone(node, true);
	for (unsigned i = 0; i < node->domain_count; i++)
		if (node->domains[i].protocol != NULL)
			domain_fini(node, &node->domains[i]);
}

static void domains_close(struct roami_node *node)
{
	for (unsigned i = 0; i < node->domain_count; i++) {
		struct roami_domain *domain = &node->domains[i];

		if (domain->protocol == NULL)
			continue;
		roami_os_unmap(domain->page_data, domain_data_bytes(node, domain));
		if (domain->memory != NULL)
			roami_os_unmap(domain->memory, domain->memory_bytes);
		roami_os_vec_free(&domain->shared, sizeof(uint32_t));
		free(domain->state);
	}
	free(node->domains);
}

const struct roami_room roami_room_regions = {
	.name = "regions",
	.init = domains_open,
	.fini = domains_close,
};

void roami_domain_begin(struct roami_node *node, struct roami_domain *domain)
{
	if (domain->err != ROAM_OK)
		roami_node_fail(node, "protocol %s cannot run here: %s", domain->protocol->name,
				roam_strerror(domain->err));
	atomic_store(&node->several, 1);
	atomic_store(&domain->active, 1);
}

struct roami_domain *roami_domain_current(struct roami_node *node)
{
	return &node->domains[roami_domains_several(node) ? *node->env->domain(node) : 0];
}

void *roami_memory_open(struct roami_node *node, size_t bytes)
{
	struct roami_domain *domain = roami_domain_current(node);

	roami_assert(domain->memory == NULL);
	domain->memory = roami_os_reserve_sparse(bytes);
	domain->memory_bytes = bytes;
	if (domain->memory == NULL)
		roami_node_fail(node, "cannot map the %zu bytes of protocol %s (limit of address "
				"space, ulimit -v)", bytes, domain->protocol->name);
	return domain->memory;
}

void *roami_memory(struct roami_node *node)
{
	return roami_domain_current(node)->memory;
}

void roami_memory_spoil(struct roami_node *node, void *at, size_t bytes)
{
	roami_spoil(node, ROAMI_SPOILT_MEMORY, at, bytes);
}

void roami_memory_lock(struct roami_node *node)
{
	roami_spin_lock(node, &roami_domain_current(node)->memory_lock);
}

void roami_memory_unlock(struct roami_node *node)
{
	roami_spin_unlock(&roami_domain_current(node)->memory_lock);
}

bool roami_page_ours(struct roami_node *node, uint32_t page)
{
	const struct roami_domain *domain = roami_domain_current(node);

	return page >= domain->first && page < domain->end;
}

uint32_t roami_request_page(struct roami_node *node, const struct roam_request *request,
			    size_t bytes)
{
	uint32_t page = UINT32_MAX;

	if (request->bytes >= bytes)
		memcpy(&page, request->data, sizeof(page));
	if (!roami_page_ours(node, page))
		roami_node_fail(node, "node %u sent a malformed request about a page",
				request->from);
	return page;
}
