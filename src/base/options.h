/*
 * Options: ROAM_* variables of the environment, from the table in options.def.
 */
#ifndef ROAMI_OPTIONS_H
#define ROAMI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"
#include "roam/transport.h"

#define ROAMI_OPTION_NAME_MAX 48   /* bytes of a NAME or WORD, with its end */
#define ROAMI_OPTION_OUTPUT_MAX 1024 /* bytes of a path, with its end */

#define ROAMI_OPTION_TEXT_MAX 256 /* bytes of a TEXT, with its end */

/* Values of CHOICE options: the index of the word in the table. */
/* Bits of a LIST: the words of the table behind the first one, in their order. */
enum roami_option_check {
	ROAMI_CHECK_RACE = 1,
	ROAMI_CHECK_STATICS = 2,
	ROAMI_CHECK_SHARING = 4,
	ROAMI_CHECK_POINTERS = 8,
	ROAMI_CHECK_HEAP = 16,
	ROAMI_CHECK_SCOPE = 32,
	ROAMI_CHECK_CONFLICTS = 64,
	/* Of them, those that look at diffs. */
	ROAMI_CHECK_DIFFS = ROAMI_CHECK_RACE | ROAMI_CHECK_SHARING | ROAMI_CHECK_POINTERS |
			    ROAMI_CHECK_SCOPE,
	/* Checks that name blocks. */
	ROAMI_CHECK_BLOCKS = ROAMI_CHECK_DIFFS | ROAMI_CHECK_HEAP | ROAMI_CHECK_CONFLICTS
};
enum roami_option_ivy { ROAMI_IVY_FIXED, ROAMI_IVY_DYNAMIC };
enum roami_option_tx_commit { ROAMI_TX_COMMIT_TOKEN, ROAMI_TX_COMMIT_PAGES };
enum roami_option_tx_validate { ROAMI_TX_FORWARD, ROAMI_TX_BACKWARD };
enum roami_option_tx_reads { ROAMI_TX_READS_RESIDENT, ROAMI_TX_READS_EXACT, ROAMI_TX_READS_TUNED };
enum roami_option_store_sync { ROAMI_STORE_GROUP, ROAMI_STORE_EACH };
enum roami_option_erc { ROAMI_ERC_INVALIDATE, ROAMI_ERC_UPDATE, ROAMI_ERC_AUTO };
enum roami_option_barrier { ROAMI_BARRIER_FLAT, ROAMI_BARRIER_TREE };
enum roami_option_alloc { ROAMI_ALLOC_OWN, ROAMI_ALLOC_JEMALLOC };
enum roami_option_seal { ROAMI_SEAL_AUTO, ROAMI_SEAL_AUTH, ROAMI_SEAL_ENCRYPT, ROAMI_SEAL_OFF };
enum roami_option_log { ROAMI_LEVEL_ERROR, ROAMI_LEVEL_WARN, ROAMI_LEVEL_INFO, ROAMI_LEVEL_DEBUG };

#ifdef ROAMI_HAVE_JEMALLOC
#define ROAMI_ALLOC_DEFAULT "jemalloc"
#define ROAMI_ALLOC_ALLOWED "own|jemalloc"
#else
#define ROAMI_ALLOC_DEFAULT "own"
#define ROAMI_ALLOC_ALLOWED "own"
#endif

#define ROAMI_TRANSPORT_OPTIONS_MAX 24 /* of all transports of a build together */

#define ROAMI_OPTION_FIELD_NAME(field) char field[ROAMI_OPTION_NAME_MAX]
#define ROAMI_OPTION_FIELD_WORD(field) char field[ROAMI_OPTION_NAME_MAX]
#define ROAMI_OPTION_FIELD_CHOICE(field) unsigned field
#define ROAMI_OPTION_FIELD_LIST(field) unsigned field
#define ROAMI_OPTION_FIELD_SIZE(field) uint64_t field
#define ROAMI_OPTION_FIELD_UNSIGNED(field) uint64_t field
#define ROAMI_OPTION_FIELD_BOOL(field) bool field
#define ROAMI_OPTION_FIELD_TEXT(field) char field[ROAMI_OPTION_TEXT_MAX]
#define ROAMI_OPTION_FIELD_OUTPUT(field) char field[ROAMI_OPTION_OUTPUT_MAX]

struct roami_options {
#define OPTION(field, variable, type, value, allowed, meaning) ROAMI_OPTION_FIELD_##type(field);
#define OPTION_INTERNAL OPTION
#include "base/options.def"
#undef OPTION_INTERNAL
#undef OPTION
	/* Of the build's transports, in the order of their list and tables. */
	struct roam_transport_value transports[ROAMI_TRANSPORT_OPTIONS_MAX];
};

enum roami_option_type {
	ROAMI_OPTION_NAME,
	ROAMI_OPTION_WORD,
	ROAMI_OPTION_CHOICE,
	ROAMI_OPTION_LIST,
	ROAMI_OPTION_SIZE,
	ROAMI_OPTION_UNSIGNED,
	ROAMI_OPTION_BOOL,
	ROAMI_OPTION_TEXT,
	ROAMI_OPTION_OUTPUT
};

/* One line of the table, for the parser, `roam info` and the manual. */
struct roami_option {
	const char *variable;
	enum roami_option_type type;
	bool internal;
	const char *value; /* the default, as it would stand in the environment */
	const char *allowed;
	const char *meaning;
	size_t offset; /* of the field in struct roami_options */
};

extern const struct roami_option roami_options_table[]; /* ends with a NULL variable */

/* Option `index`: the table's, then those of the build's transports.  False: there are no more. */
bool roami_option_at(unsigned index, struct roami_option *option_p);

/*
 * The values of a transport's options, in their order; of one that is not in the build's list the
 * defaults.
 */
void roami_options_of(const struct roami_options *options, const struct roam_transport *transport,
		      struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX]);

/* Every option at its default. */
void roami_options_default(struct roami_options *options);

/*
 * Defaults, then what the environment says; an empty value counts as unset.  One line per bad value
 * goes to err_fd: the variable, the value, what is allowed.  Unknown ROAM_* variables get a
 * warning, but not in processes that a launcher started, which has warned already.  err_fd -1: says
 * nothing.  Allocates nothing. ROAM_EINVAL if a value was bad; that option then has its default.
 */
enum roam_err roami_options_read(struct roami_options *options, char *const *env, int err_fd);

/*
 * The number in "VARIABLE=number", checked like the environment's.  ROAM_EINVAL, and one line to
 * err_fd, if it is not allowed.
 */
enum roam_err roami_options_number(const char *text, uint64_t *value_p, int err_fd);

/* What an option takes, in words: "a size from 16M to 1T".  Cut off at `bytes`. */
void roami_option_allowed(const struct roami_option *option, char *text, size_t bytes);

/* The option's present value, as it would stand in the environment; cut off at `bytes`. */
void roami_option_show(const struct roami_option *option, const struct roami_options *options,
		       char *text, size_t bytes);

/*
 * Finds the option whose variable is most like `variable`; false: none is near.  Internal ones are
 * never suggested.
 */
bool roami_option_near(const char *variable, struct roami_option *near_p);

#endif
