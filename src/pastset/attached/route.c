/* The route to an element of a server: operations are asked over the program's connection. */
#include "pastset/attached/route.h"

#include <stdio.h>
#include <stdlib.h>

#include "pastset/attached/guest.h"
#include "run/wait.h"

/*
 * A thread of a node that is about to wait for a server shows it in its node's reports; NULL: it
 * does not, since it is none.  What is returned lasts longer than the node.
 */
static struct roami_waiting *attached_shows(const struct roam_ps_element *element,
					    const struct roam_ps_request *request)
{
	const struct roami_attachments *all = element->server->all;
	struct roami_node *node = all->node != NULL ? all->node() : NULL;

	if (node == NULL || !roami_seated(node))
		return NULL;
	roami_client_waits(node, element, request);
	return &node->self->ctl->waits[node->env->thread(node)];
}

static enum roam_err attached_call(struct roam_ps_element *element, struct roam_ps_request *request)
{
	struct roami_waiting *waiting;
	struct roami_ask ask;
	enum roam_err err;

	if (!roami_client_begin(element, request, &ask, &err))
		return err;
	waiting = attached_shows(element, request);
	err = roami_attach_ask(element, &ask, request);
	if (waiting != NULL)
		atomic_store(&waiting->kind, 0);
	roami_client_end(element, request);
	return err;
}

static void attached_leave(struct roam_ps_element *element)
{
	roami_attach_leave(element->server, element);
	free(element);
}

static uint64_t attached_now(const struct roam_ps_element *element)
{
	(void)element;
	return roami_os_now_ns();
}

const struct roami_ps_route roami_route_attached = {
	.call = attached_call,
	.leave = attached_leave,
	.now = attached_now,
};

/* --------------------------------------------------------------------------------------- enter */

static enum roam_err enter_server(struct roami_enter *enter, struct roam_ps_server *server)
{
	const struct roami_bind *ask = &enter->ask;
	struct roam_part parts[2] = {{ask, sizeof(*ask)},
				     {enter->texts, ask->name_bytes + ask->template_bytes}};
	uint64_t timeout = enter->options->timeout_ns;
	enum roam_err err;
	size_t got;

	if (enter->options->storage == ROAM_PS_PAGES) {
		snprintf(enter->why, enter->why_bytes, "storage in pages is for nodes of a job");
		return ROAM_EINVAL;
	}
	err = roami_attach_call(server, ROAMI_GUEST_BIND, timeout != 0 ? timeout : ROAMI_ANSWER_NS,
				parts, 2, &enter->answer, sizeof(enter->answer), &got);
	if (err != ROAM_OK)
		return err;
	if (got != sizeof(enter->answer))
		return ROAM_EPROTO;
	enter->answer.template_text[ROAM_PS_TEMPLATE_MAX] = '\0';
	enter->answer.function[ROAM_PS_FUNCTION_MAX] = '\0';
	return roami_enter_bound(enter, "the server");
}

enum roam_err roami_past_enter_at(struct roam_ps_server *server, const char *name,
				  const char *template_text, const struct roam_ps_options *options,
				  struct roam_ps_element **element_p, char *why, size_t why_bytes)
{
	struct roami_enter enter = {.why = why, .why_bytes = why_bytes};
	enum roam_err err = roami_enter_begin(&enter, name, template_text, options);

	if (err == ROAM_OK)
		err = enter_server(&enter, server);
	if (err == ROAM_OK) {
		enter.element->server = server;
		enter.element->owner = roami_hosted_owner(enter.answer.element);
		enter.element->shows = ROAMI_TUPLE_SERVER | ROAMI_TUPLE_ENDS;
		enter.element->route = &roami_route_attached;
		roami_attach_hold(server);
	}
	return roami_enter_end(&enter, err, element_p);
}
