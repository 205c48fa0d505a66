#include "core/domain.h"

#include <stdlib.h>
#include <string.h>

#include "core/page.h"
#include "core/store.h"
#include "core/thread.h"
#include "msg/msg.h"

static size_t domain_data_bytes(const struct roami_node *node, const struct roami_domain *domain)
{
	return (domain->end - domain->first) * roami_page_state_bytes(node, domain->protocol) + 1;
}

/* Gives the domain's messages their types. */
static void domain_register(struct roami_node *node, struct roami_domain *domain)
{
	const struct roam_message *messages = domain->protocol->messages;

	domain->types = node->types_end;
	if (messages == NULL)
		return;
	roami_msg_register(node, domain->types, messages);
	for (; messages->name != NULL; messages++)
		node->type_domains[node->types_end++] = (uint8_t)(domain - node->domains);
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
	if (domain->page_data == NULL || domain->state == NULL)
		return ROAM_ENOMEM;
	domain_register(node, domain);
	return ROAM_OK;
}

/* The protocol starts, or ends, in its domain. */
static void domain_init(struct roami_node *node, struct roami_domain *domain)
{
	unsigned was = roami_domain_enter(node, domain);

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

enum roam_err roami_domains_open(struct roami_node *node,
				 const struct roam_protocol *const *regions)
{
	const struct roami_layout *layout = &node->layout;
	enum roam_err err = ROAM_OK;

	roami_assert(layout->regions < ROAMI_DOMAINS_MAX);
	node->types_end = ROAMI_TYPE_PROTOCOL;
	node->domain_count = 1 + layout->regions;
	for (unsigned i = 0; i < node->domain_count && err == ROAM_OK; i++) {
		struct roami_domain *domain = &node->domains[i];

		domain->protocol = i == 0 ? node->protocol : regions[i - 1];
		domain->first = i == 0 ? layout->own_first : (i - 1) * layout->region_pages;
		domain->end = i == 0 ? layout->pages : i * layout->region_pages;
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

void roami_domains_close(struct roami_node *node)
{
	domains_alone(node, true);
	for (unsigned i = 0; i < node->domain_count; i++) {
		struct roami_domain *domain = &node->domains[i];

		if (domain->protocol == NULL) /* not opened */
			break;
		domain_fini(node, domain);
		roami_os_unmap(domain->page_data, domain_data_bytes(node, domain));
		roami_store_close(&domain->store);
		roami_os_vec_free(&domain->shared, sizeof(uint32_t));
		free(domain->state);
	}
}

void roami_domain_dump(const struct roami_node *node, const struct roami_domain *domain,
		       size_t first, size_t end)
{
	size_t each = roami_page_state_bytes(node, domain->protocol);

	if (first < domain->first)
		first = domain->first;
	if (end > domain->end)
		end = domain->end;
	if (first < end)
		roami_os_dump(domain->page_data + (first - domain->first) * each,
			      (end - first) * each);
}

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

bool roami_page_ours(struct roami_node *node, uint32_t page)
{
	return page < node->layout.pages &&
	       roami_domain_of(node, page) == roami_domain_current(node);
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
