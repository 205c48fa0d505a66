/*
 * X-functions: pairs of a write and a read function that give an element another meaning.  Those
 * here are reductions: in every round each participant moves one tuple, the round's result is the
 * element's next tuple, and each participant observes it once (rule 11.6).  But "match" leaves
 * tuples as they are, and lets observers say what theirs is to be like.
 */
#ifndef ROAMI_XFUNC_H
#define ROAMI_XFUNC_H

#include "pastset/template.h"

#define ROAMI_ROUNDS_MAX    16u /* begun and not complete */
#define ROAMI_FUNCTIONS_MAX 64u /* registered at a node; one less */

/* Combines a tuple into the sum so far.  As a handler: it must not block or touch the heap. */
typedef void roami_combine_fn(const struct roami_template *template, void *sum, const void *tuple);

struct roami_function {
	char name[ROAM_PS_FUNCTION_MAX + 1];
	roami_combine_fn *combine; /* of those that are there from the start */
	struct roam_ps_function user;
	bool whole; /* for integers only */
	bool match; /* roami_template_match */
	bool packs; /* no reduction: tuples are compressed, see pastset/bitmap.h */
};

/* No reduction: tuples stay, and are observed by a pattern. */
static inline bool roami_function_matches(const struct roami_function *function)
{
	return function->match || function->user.match != NULL;
}

/* The built-in functions; the last has no name. */
extern const struct roami_function roami_functions[];

/*
 * Whether the template is one for the function, and the number of participants: reductions are for
 * one of fixed size, its numbers right.
 */
bool roami_function_fits(const struct roami_function *function,
			 const struct roami_template *template, uint32_t participants);

/* Whether a tuple is like a pattern, as `number` says. */
bool roami_function_match(const struct roami_function *function,
			  const struct roami_template *template, uint64_t number,
			  const void *pattern, size_t pattern_bytes, const void *tuple,
			  size_t tuple_bytes);

void roami_function_combine(const struct roami_function *function,
			    const struct roami_template *template, void *sum, const void *tuple);

#endif
