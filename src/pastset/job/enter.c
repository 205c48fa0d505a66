/* Bindings: made from an element's name and template, bound at the owner, given a route. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pastset/job/client.h"
#include "pastset/job/server.h"

/* ---------------------------------------------------------- for elements at nodes and servers */

static enum roam_err enter_check(const struct roami_enter *enter, const char *name)
{
	const struct roam_ps_options *options = enter->options;

	if (name != NULL && (name[0] == '\0' || strlen(name) > ROAM_PS_NAME_MAX))
		snprintf(enter->why, enter->why_bytes, "a name has 1 to %u bytes",
			 ROAM_PS_NAME_MAX);
	else if ((unsigned)options->place > ROAM_PS_NODE)
		snprintf(enter->why, enter->why_bytes, "there is no such place as %u",
			 (unsigned)options->place);
	else if (options->function != NULL && (options->function[0] == '\0' ||
					       strlen(options->function) > ROAM_PS_FUNCTION_MAX))
		snprintf(enter->why, enter->why_bytes,
			 "an X-function has a name of 1 to %u bytes", ROAM_PS_FUNCTION_MAX);
	else if ((unsigned)options->storage > ROAM_PS_PAGES)
		snprintf(enter->why, enter->why_bytes, "there is no such storage as %u",
			 (unsigned)options->storage);
	else
		return ROAM_OK;
	return ROAM_EINVAL;
}

/* The element's name; the end of a longer one is cut off. */
static void enter_label(struct roam_ps_element *element, const char *name)
{
	char *label = (char *)element->label;

	if (snprintf(label, sizeof(element->label), "%s", name) >= (int)sizeof(element->label))
		memcpy(label + sizeof(element->label) - 4, "...", 4);
}

static void enter_ask(struct roami_enter *enter, const char *name)
{
	const struct roam_ps_options *options = enter->options;
	struct roam_ps_element *element = enter->element;
	struct roami_bind *ask = &enter->ask;

	snprintf(enter->texts, sizeof(enter->texts), "%s%s", name, element->template.text);
	enter_label(element, name);
	*ask = (struct roami_bind){.delta = options->delta,
				   .forget = options->forget,
				   .place = options->place,
				   .node = options->node,
				   .name_bytes = (uint32_t)strlen(name),
				   .template_bytes = (uint32_t)strlen(element->template.text)};
	if (options->storage == ROAM_PS_PAGES)
		ask->heap_bytes = options->memory;
	if (options->function == NULL)
		return;
	snprintf(ask->function, sizeof(ask->function), "%s", options->function);
	ask->participants = element->participants = options->participants;
	element->rounds = options->participants != 0;
}

enum roam_err roami_enter_begin(struct roami_enter *enter, const char *name,
				const char *template_text, const struct roam_ps_options *options)
{
	static const struct roam_ps_options defaults = {.place = ROAM_PS_HASH};
	enum roam_err err;

	enter->options = options != NULL ? options : &defaults;
	enter->element = calloc(1, sizeof(*enter->element));
	if (enter->element == NULL)
		return ROAM_ENOMEM;
	err = enter_check(enter, name);
	if (err == ROAM_OK)
		err = roami_template_parse(&enter->element->template, template_text, enter->why,
					   enter->why_bytes);
	if (err == ROAM_OK)
		enter_ask(enter, name != NULL ? name : enter->element->template.text);
	return err;
}

/* More about an error that the owner found. */
static void enter_says(const struct roami_enter *enter, const char *where)
{
	const struct roami_ps_bound *answer = &enter->answer;
	const char *own = enter->element->template.text;
	const struct roami_bind *ask = &enter->ask;
	int bytes = (int)ask->name_bytes;
	size_t room = enter->why_bytes;
	char *why = enter->why;

	if (answer->err == ROAM_EUNKNOWN)
		snprintf(why, room, "%s knows no X-function %s", where, ask->function);
	else if (answer->err == ROAM_EINVAL && answer->nodes != 0)
		snprintf(why, room, "there is no node %u, the job has %u", ask->node,
			 answer->nodes);
	else if (answer->err == ROAM_EINVAL && answer->paged != 0)
		snprintf(why, room,
			 "element %.*s has its tuples in pages, which are for the nodes of the job",
			 bytes, enter->texts);
	else if (answer->err == ROAM_EINVAL)
		snprintf(why, room,
			 "X-function %s is not for the template %s%s, or not of %u participants",
			 ask->function, own, ask->heap_bytes != 0 ? " in pages" : "",
			 ask->participants);
	else if (answer->err == ROAM_EMISMATCH && answer->template_bytes == 0)
		snprintf(why, room,
			 "element %.*s has the X-function \"%s\" of %u participants, not \"%s\" of "
			 "%u",
			 bytes, enter->texts, answer->function, answer->participants,
			 ask->function, ask->participants);
	else if (answer->err == ROAM_EMISMATCH)
		snprintf(why, room, "element %.*s has the template %.*s, not %s", bytes,
			 enter->texts, (int)answer->template_bytes, answer->template_text, own);
}

enum roam_err roami_enter_bound(struct roami_enter *enter, const char *where)
{
	enter->element->element = enter->answer.element;
	enter->element->heap = enter->answer.paged != 0 ? enter->answer.heap : ROAMI_NO_HEAP;
	enter_says(enter, where);
	return (enum roam_err)enter->answer.err;
}

enum roam_err roami_enter_end(struct roami_enter *enter, enum roam_err err,
			      struct roam_ps_element **element_p)
{
	if (err != ROAM_OK) {
		free(enter->element);
		return err;
	}
	roami_assert(enter->element->route != NULL);
	enter->element->call = enter->element->route->call;
	*element_p = enter->element;
	return ROAM_OK;
}

/* Takes partials, as one of two participants in rounds of a function known everywhere. */

/* The node where the options want a new element; node->nodes: where its name says. */
static unsigned enter_place(const struct roami_node *node, const struct roam_ps_options *options)
{
	if (options->place == ROAM_PS_HASH)
		return node->nodes;
	return options->place == ROAM_PS_CREATOR ? node->me : options->node;
}

/* Takes partials, as one of two participants in rounds of a function that is known everywhere. */
static void enter_taker(struct roami_enter *enter)
{
	const struct roami_function *function = roami_functions;
	struct roam_ps_element *element = enter->element;

	while (function->name[0] != '\0' && strcmp(function->name, enter->ask.function) != 0)
		function++;
	if (element->participants != 2 || function->combine == NULL ||
	    element->template.bytes > ROAMI_PARTIAL_MAX)
		return;
	element->function = function;
	element->taker = roami_taker_open(element->past, element->owner,
					  element->element, element->template.bytes);
}

static void enter_route(struct roami_enter *enter)
{
	struct roam_ps_element *element = enter->element;

	element->shows = element->participants << ROAMI_TUPLE_PARTICIPANTS;
	element->owner_route = &roami_route_here;
	if (element->owner != element->node->me) {
		element->owner_route = &roami_route_away;
		enter_taker(enter);
	}
	element->route = enter->answer.paged != 0 ? &roami_route_pages : element->owner_route;
}

/* Finds where the element is, then binds it there. */
static enum roam_err enter_node(struct roami_enter *enter, struct roami_node *node)
{
	struct roam_ps_element *element = enter->element;
	enum roam_err err;
	char where[24];

	if (enter->ask.place == ROAM_PS_NODE && enter->ask.node >= node->nodes) {
		snprintf(enter->why, enter->why_bytes, "there is no node %u, the job has %u",
			 enter->ask.node, node->nodes);
		return ROAM_EINVAL;
	}
	element->node = node;
	element->past = roami_past_of(node);
	element->rounds_moved = element->rounds_observed = element->past->tuples_begin;
	roami_node_waits_tuple(node, 0, ROAMI_TUPLE_ENTER | ROAMI_TUPLE_ENDS, element->label);
	err = roami_past_locate(node, enter->texts, enter->ask.name_bytes,
				enter_place(node, enter->options), &element->owner);
	if (err == ROAM_OK) {
		roami_past_bind(node, element->owner, &enter->ask, enter->texts, &enter->answer,
				&element->at);
		snprintf(where, sizeof(where), "node %u", element->owner);
		err = roami_enter_bound(enter, where);
	}
	roami_node_waits_no_more(node);
	return err;
}

enum roam_err roami_past_enter(struct roami_node *node, const char *name, const char *template_text,
			       const struct roam_ps_options *options, uint64_t heap,
			       struct roam_ps_element **element_p, char *why, size_t why_bytes)
{
	struct roami_enter enter = {.why = why, .why_bytes = why_bytes};
	enum roam_err err = roami_enter_begin(&enter, name, template_text, options);

	if (err == ROAM_OK) {
		enter.ask.heap = heap;
		err = enter_node(&enter, node);
	}
	if (err == ROAM_OK)
		enter_route(&enter);
	return roami_enter_end(&enter, err, element_p);
}
