/* Templates: the text parsed, and what bytes are a tuple of it. */
#ifndef ROAMI_TEMPLATE_H
#define ROAMI_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/pastset.h"

/* A field, or a group of fields, which follow it. */
struct roami_field {
	char kind;       /* i, u, f; ( for a group */
	uint16_t fields; /* of the group, those of groups in it counted */
	uint32_t count;  /* items; 0: the tuple says */
	uint32_t item;   /* bytes of one; 0: varies */
};

struct roami_template {
	struct roami_field fields[ROAM_PS_FIELDS_MAX];
	uint32_t count;                      /* of fields */
	uint32_t bytes;                      /* of a tuple; 0: varies */
	char text[ROAM_PS_TEMPLATE_MAX + 1]; /* canonical: without spaces */
};

/* ROAM_EINVAL: `why`, of why_bytes, says where it makes no sense. */
enum roam_err roami_template_parse(struct roami_template *template, const char *text, char *why,
				   size_t why_bytes);

/*
 * Whether two tuples have the same bytes in those of the outermost fields whose bits are set; bit 0
 * is that of the first field.
 */
bool roami_template_match(const struct roami_template *template, uint64_t fields, const void *one,
			  size_t one_bytes, const void *other, size_t other_bytes);

/* Whether these bytes are a tuple. */
bool roami_template_fits(const struct roami_template *template, const void *tuple, size_t bytes);

#endif
