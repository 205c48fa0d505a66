/*
 * Names.  The node that a name's hash says knows at which node its element lives; that node knows
 * the element's template and number.  The first caller decides both.  Nothing is ever removed.
 */
#include "pastset/names.h"

#include <string.h>

#define NAMES_MAX (2 * ROAMI_ELEMENTS_MAX) /* elements here, and those whose place is known here */
#define SLOTS_MAX (2 * NAMES_MAX)

struct roami_name {
	uint64_t hash;
	uint64_t text;    /* in past->strings: the name, then the template */
	uint32_t bytes;   /* of the name */
	uint32_t owner;   /* + 1; 0: its place is not for us to know */
	uint32_t element; /* + 1; 0: it does not live here, or not yet */
	uint32_t template_bytes;
	uint64_t template_text;
};

static uint64_t name_hash(const char *name, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3u;
	return hash ^ hash >> 32;
}

unsigned roami_name_home(const struct roami_node *node, const char *name, size_t bytes)
{
	return (unsigned)(name_hash(name, bytes) % node->nodes);
}

enum roam_err roami_names_open(struct roami_past *past)
{
	roami_assert(roami_spin_held(&past->lock));
	past->names = roami_os_reserve_sparse(NAMES_MAX * sizeof(*past->names));
	past->name_slots = roami_os_reserve_sparse(SLOTS_MAX * sizeof(*past->name_slots));
	/* Slots are touched here and there: no more of them than there may be names, twice. */
	past->name_mask = SLOTS_MAX - 1;
	while ((uint64_t)past->name_mask / 4 * sizeof(struct roami_name) >
	       past->node->options->ps_memory)
		past->name_mask /= 2;
	return past->names == NULL || past->name_slots == NULL ? ROAM_ENOMEM : ROAM_OK;
}

void roami_names_close(struct roami_past *past)
{
	roami_os_unmap(past->names, NAMES_MAX * sizeof(*past->names));
	roami_os_unmap(past->name_slots, SLOTS_MAX * sizeof(*past->name_slots));
	roami_os_vec_free(&past->strings, 1);
}

/* ---------------------------------------------------------------- the table; past->lock is held */

static bool name_keep(struct roami_past *past, const char *text, size_t bytes, uint64_t *at_p)
{
	uint8_t *at = roami_os_vec_grow(&past->strings, 1, bytes + 1);

	roami_assert(roami_spin_held(&past->lock));
	if (at == NULL)
		return false;
	memcpy(at, text, bytes);
	*at_p = past->strings.count;
	past->strings.count += bytes + 1;
	return true;
}

/* The bytes of ROAM_PS_MEMORY that a name takes. */
static size_t name_size(size_t bytes)
{
	return sizeof(struct roami_name) + 2 * sizeof(uint32_t) + bytes + 1;
}

/* The entry of a name, made if need be; NULL: there is no room. */
static struct roami_name *name_find(struct roami_past *past, const char *name, size_t bytes)
{
	uint64_t hash = name_hash(name, bytes), slot = (hash * 0x9e3779b97f4a7c15u) >> 24;
	struct roami_name *entry;

	roami_assert(roami_spin_held(&past->lock));
	for (;; slot++) {
		uint32_t index = past->name_slots[slot & past->name_mask];

		if (index == 0)
			break;
		entry = &past->names[index - 1];
		if (entry->hash == hash && entry->bytes == bytes &&
		    memcmp(past->strings.items + entry->text, name, bytes) == 0)
			return entry;
	}
	entry = &past->names[past->name_count];
	if (past->name_count > past->name_mask / 2 || !roami_past_keep(past, name_size(bytes)))
		return NULL;
	if (!name_keep(past, name, bytes, &entry->text)) {
		past->kept_left += name_size(bytes);
		return NULL;
	}
	entry->hash = hash;
	entry->bytes = (uint32_t)bytes;
	past->name_slots[slot & past->name_mask] = ++past->name_count;
	return entry;
}

/*
 * The name's element was not made.  Forgets the name if it is the last one, and no other node can
 * have been told where its element is to live.
 */
static void name_forget(struct roami_past *past, struct roami_name *entry)
{
	uint64_t slot = (entry->hash * 0x9e3779b97f4a7c15u) >> 24;

	roami_assert(roami_spin_held(&past->lock) && past->name_count > 0);
	if (entry != &past->names[past->name_count - 1] || entry->element != 0 ||
	    (entry->owner != 0 && past->node->nodes > 1) ||
	    entry->text + entry->bytes + 1 != past->strings.count)
		return;
	while (past->name_slots[slot & past->name_mask] != past->name_count)
		slot++;
	past->name_slots[slot & past->name_mask] = 0;
	past->strings.count = entry->text;
	past->kept_left += name_size(entry->bytes);
	past->name_count--;
	memset(entry, 0, sizeof(*entry));
}

void roami_name_locate(struct roami_past *past, const struct roami_locate *ask, const char *name,
		       struct roami_located *answer)
{
	struct roami_name *entry;

	*answer = (struct roami_located){(uint32_t)roami_past_open(past), 0};
	if (answer->err != ROAM_OK)
		return;
	roami_spin_lock(past->node, &past->lock);
	entry = name_find(past, name, ask->name_bytes);
	if (entry != NULL && entry->owner == 0)
		entry->owner = ask->wanted + 1;
	if (entry != NULL)
		answer->owner = entry->owner - 1;
	else
		answer->err = ROAM_ENOSPC;
	roami_spin_unlock(&past->lock);
}

/* The element is new. */
static enum roam_err name_make(struct roami_past *past, struct roami_name *entry,
			       const struct roami_bind *ask, const char *template_text)
{
	char text[ROAM_PS_TEMPLATE_MAX + 1] = "";
	enum roam_err err;
	uint32_t element;

	memcpy(text, template_text, ask->template_bytes);
	if (!roami_past_keep(past, ask->template_bytes + 1))
		return ROAM_ENOSPC;
	err = ROAM_ENOMEM;
	if (name_keep(past, text, ask->template_bytes, &entry->template_text)) {
		err = roami_past_make(past, ask, text, &element);
		if (err != ROAM_OK)
			past->strings.count = entry->template_text;
	}
	if (err != ROAM_OK) {
		past->kept_left += ask->template_bytes + 1;
		return err;
	}
	entry->template_bytes = ask->template_bytes;
	entry->element = element + 1;
	past->elements[element].name = (uint32_t)(entry - past->names);
	return ROAM_OK;
}

void roami_name_of(struct roami_past *past, uint32_t element, char *name, size_t bytes)
{
	const struct roami_name *entry;

	roami_spin_lock(past->node, &past->lock);
	entry = &past->names[past->elements[element].name];
	if (entry->bytes < bytes)
		bytes = entry->bytes + 1u;
	memcpy(name, past->strings.items + entry->text, bytes - 1);
	name[bytes - 1] = '\0';
	roami_spin_unlock(&past->lock);
}

/* past->lock is held. */
static enum roam_err name_bind(struct roami_past *past, const struct roami_bind *ask,
			       const char *texts, struct roami_ps_bound *answer)
{
	const char *template_text = texts + ask->name_bytes;
	struct roami_name *entry = name_find(past, texts, ask->name_bytes);
	enum roam_err err = entry == NULL ? ROAM_ENOSPC : ROAM_OK;
	const struct roami_element *element;
	const uint8_t *own;

	roami_contract(roami_spin_held(&past->lock));
	if (entry != NULL && entry->element == 0) {
		err = name_make(past, entry, ask, template_text);
		if (err != ROAM_OK)
			name_forget(past, entry);
	}
	if (err != ROAM_OK)
		return err;
	answer->element = entry->element - 1;
	element = &past->elements[answer->element];
	answer->paged = element->paged;
	answer->heap = element->heap;
	answer->participants = element->participants;
	if (element->function != NULL)
		strcpy(answer->function, element->function->name);
	own = past->strings.items + entry->template_text;
	if (entry->template_bytes == ask->template_bytes &&
	    memcmp(own, template_text, ask->template_bytes) == 0)
		return strcmp(answer->function, ask->function) == 0 &&
				       answer->participants == ask->participants
			       ? ROAM_OK
			       : ROAM_EMISMATCH;
	answer->template_bytes = entry->template_bytes;
	memcpy(answer->template_text, own, entry->template_bytes);
	return ROAM_EMISMATCH;
}

void roami_name_bind(struct roami_past *past, const struct roami_bind *ask, const char *texts,
		     struct roami_ps_bound *answer)
{
	enum roam_err err = roami_past_open(past);

	memset(answer, 0, sizeof(*answer));
	if (err == ROAM_OK) {
		roami_spin_lock(past->node, &past->lock);
		err = name_bind(past, ask, texts, answer);
		roami_spin_unlock(&past->lock);
	}
	answer->err = (uint32_t)err;
}
