/*
 * The elements that a node has, and the X-functions that it knows: both are made under past->lock,
 * and stay.
 */
#include <string.h>

#include "pastset/kernel.h"
#include "pastset/names.h"

const char roami_past_name[] = "pastset";

struct roami_past *roami_past_of(struct roami_node *node)
{
	return roami_extension(node, roami_past_name)->state;
}

enum roam_err roami_past_open(struct roami_past *past)
{
	enum roam_err err = ROAM_OK;

	if (atomic_load_explicit(&past->opened, memory_order_acquire) != 0)
		return ROAM_OK;
	roami_spin_lock(past->node, &past->lock);
	if (atomic_load(&past->opened) == 0) {
		past->elements = roami_os_reserve_sparse(ROAMI_ELEMENTS_MAX *
							 sizeof(*past->elements));
		past->waiters = roami_os_reserve_sparse(ROAMI_WAITERS_MAX * sizeof(*past->waiters));
		past->templates = roami_os_reserve_sparse(ROAMI_ELEMENTS_MAX *
							  sizeof(*past->templates));
		err = roami_past_buddy_init(&past->buddy, past->node->options->ps_memory);
		if (past->elements == NULL || past->waiters == NULL || past->templates == NULL)
			err = ROAM_ENOMEM;
		if (err == ROAM_OK)
			err = roami_names_open(past);
		if (err == ROAM_OK)
			atomic_store_explicit(&past->opened, 1, memory_order_release);
	}
	roami_spin_unlock(&past->lock);
	return err;
}

/* The X-function of a name; NULL: it is not known.  past->lock is held. */
static const struct roami_function *function_find(struct roami_past *past, const char *name)
{
	const struct roami_function *const lists[] = {roami_functions, past->functions};

	roami_assert(roami_spin_held(&past->lock));
	for (unsigned i = 0; i < 2; i++)
		for (const struct roami_function *at = lists[i]; at->name[0] != '\0'; at++)
			if (strcmp(at->name, name) == 0)
				return at;
	return NULL;
}

enum roam_err roami_past_register(struct roami_past *past, const struct roam_ps_function *function)
{
	struct roami_function made = {.user = *function};
	enum roam_err err = roami_past_open(past);
	unsigned at = 0;

	if (err != ROAM_OK)
		return err;
	strcpy(made.name, function->name); /* before the lock: it may fault */
	roami_spin_lock(past->node, &past->lock);
	if (function_find(past, made.name) == NULL) {
		while (past->functions[at].name[0] != '\0')
			at++;
		if (at < ROAMI_FUNCTIONS_MAX - 1)
			past->functions[at] = made;
		else
			err = ROAM_ENOSPC;
	}
	roami_spin_unlock(&past->lock);
	return err;
}

/* The X-function of a new element. */
static enum roam_err past_make_function(struct roami_past *past, const struct roami_bind *ask,
					const char *template_text, uint32_t number)
{
	struct roami_element *element = &past->elements[number];
	struct roami_template *template = &past->templates[number];
	char why[64];

	element->function = function_find(past, ask->function);
	if (element->function == NULL)
		return ROAM_EUNKNOWN;
	if (roami_template_parse(template, template_text, why, sizeof(why)) != ROAM_OK ||
	    !roami_function_fits(element->function, template, ask->participants) ||
	    ask->heap_bytes != 0)
		return ROAM_EINVAL;
	element->template = template;
	element->matches = roami_function_matches(element->function);
	element->packs = element->function->packs;
	element->participants = ask->participants;
	return ROAM_OK;
}

bool roami_past_keep(struct roami_past *past, size_t bytes)
{
	uint32_t unit;

	roami_assert(roami_spin_held(&past->lock));
	while (past->kept_left < bytes) {
		unit = roami_past_buddy_take(past->node, &past->buddy, 0);
		if (unit == 0)
			return false;
		roami_os_forget(roami_past_buddy_at(&past->buddy, unit), ROAMI_PAST_UNIT);
		past->kept_left += ROAMI_PAST_UNIT;
	}
	past->kept_left -= bytes;
	return true;
}

enum roam_err roami_past_make(struct roami_past *past, const struct roami_bind *ask,
			      const char *template_text, uint32_t *element_p)
{
	uint32_t number = atomic_load(&past->element_count);
	struct roami_element *element = &past->elements[number];
	size_t size = sizeof(*element) +
		      (ask->function[0] != '\0' ? sizeof(struct roami_template) : 0);
	enum roam_err err = ROAM_OK;

	roami_assert(roami_spin_held(&past->lock));
	if (number == ROAMI_ELEMENTS_MAX || !roami_past_keep(past, size))
		return ROAM_ENOSPC;
	roami_element_init(element, &past->buddy, ask->delta, ask->forget != 0);
	roami_tuples_begin(&element->tuples, past->tuples_begin);
	if (ask->function[0] != '\0')
		err = past_make_function(past, ask, template_text, number);
	else if (ask->heap_bytes != 0)
		err = roami_past_buddy_init(&element->own, ask->heap_bytes);
	if (err != ROAM_OK) {
		past->kept_left += size;
		return err;
	}
	if (ask->heap_bytes != 0) {
		element->paged = true;
		element->heap = ask->heap;
		element->buddy = &element->own;
	}
	atomic_store_explicit(&past->element_count, number + 1, memory_order_release);
	*element_p = number;
	return ROAM_OK;
}

void roami_past_lend(struct roami_past *past, struct roami_element *element,
		     const struct roami_lent *lent)
{
	struct roami_lent *at;

	roami_spin_lock(past->node, &element->lock);
	at = roami_os_vec_grow(&element->lent, sizeof(*at), 1);
	if (at != NULL) {
		*at = *lent;
		element->lent.count++;
	}
	roami_spin_unlock(&element->lock);
	if (at == NULL)
		roami_node_fail(past->node, "no memory for what is known of tuples lent");
}

bool roami_past_return(struct roami_past *past, struct roami_element *element,
		       const struct roami_lent *lent)
{
	struct roami_lent *all;
	size_t at = 0;
	bool known;

	roami_spin_lock(past->node, &element->lock);
	all = (struct roami_lent *)(void *)element->lent.items;
	while (at < element->lent.count && memcmp(&all[at], lent, sizeof(*lent)) != 0)
		at++;
	known = at < element->lent.count;
	if (known)
		all[at] = all[--element->lent.count];
	roami_spin_unlock(&element->lock);
	return known;
}
