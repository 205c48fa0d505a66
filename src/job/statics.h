/*
 * ROAM_CHECK=statics: static variables of the program, which are private to each node from CREATE
 * on.  One that a node has written since, and that is not the same everywhere at WAIT_FOR_END, was
 * most likely meant to be shared.  Only the program's own variables are looked at, not those of
 * libraries; the symbol table names them, and the loaded code shows which functions refer to them.
 */
#ifndef ROAMI_STATICS_H
#define ROAMI_STATICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct roami_job;

/* A variable of the program. */
struct roami_static {
	const uint8_t *at;
	size_t bytes;
	const char *name; /* in the program's file, as it is mapped */
};

/* The program's file and what it says of its variables. */
struct roami_image {
	const uint8_t *file;
	size_t file_bytes;
	const uint8_t *base; /* difference between addresses in memory and in the file */
	const uint8_t *data, *data_end;
	const uint8_t *text, *text_end;
	struct roami_static *statics;
	size_t count;
};

/* NULL, or why the program cannot be looked at.  *image is zero before. */
const char *roami_image_read(struct roami_image *image);

/* Also after a failure.  The names are gone. */
void roami_image_close(struct roami_image *image);

/* Functions whose code refers to a variable: "work, main, others", "no function that was found". */
void roami_image_users(const struct roami_image *image, const struct roami_static *variable,
		       char *text, size_t bytes);

struct roami_statics {
	struct roami_image image;
	uint8_t *copy;   /* a copy of the data at the last CREATE */
	uint64_t *table; /* in the shared heap: a row of words for each node */
	size_t row;      /* words of a row */
	bool noted;      /* since then */
	bool off;        /* the reason was printed */
};

/* Copies the statics at CREATE, before a node is forked or takes its place. */
void roami_statics_begin(struct roami_job *job);

/*
 * At the seal of nodes that were only noted at CREATE: reports what node 0 has written since
 * CREATE, which processes forked there would not have seen.
 */
void roami_statics_sealed(struct roami_job *job);

/*
 * Notes what this node has written; its function has returned.  Called before the full barrier that
 * ends the nodes.
 */
void roami_statics_note(struct roami_job *job);

/*
 * Node 0, which has the heap again after `nodes` nodes: reports what was found; returns how many
 * variables.
 */
size_t roami_statics_report(struct roami_job *job, unsigned nodes);

/*
 * Another node has died.  Names the variables of this node that it has written since CREATE and
 * that point to shared memory: the dead node may have lacked the value.  Called by a thread of the
 * library.
 */
void roami_statics_broken(struct roami_job *job, unsigned dead);

/*
 * The job hangs.  Names in a line of text the next variable, from number *at_p on, that this node
 * has written since CREATE: other nodes may wait for what it says.  false: there is none.  Called
 * by a thread of the library.
 */
bool roami_statics_written(const struct roami_job *job, size_t *at_p, char *text, size_t bytes);

#endif
