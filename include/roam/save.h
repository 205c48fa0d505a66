/*
 * Checkpoints: the shared heap in a directory, from which a later run of the program goes on.
 *
 *	struct { unsigned step; double time; } at = {0, 0};
 *
 *	roam_resume_point(&at, sizeof(at));          // a resumed run begins where it was saved
 *	for (; at.step < steps; at.step++) {
 *		roam_resume_point(&at, sizeof(at));  // once per outer step
 *		advance(at.step, &at.time);
 *	}
 *
 *	roam run -n 4 --checkpoint DIR --every 600 ./prog    saves every ten minutes
 *	roam run -n 4 --resume DIR ./prog                    goes on from there
 *
 * The calls work under every protocol, on one host or several, with any launcher (ROAM_CHECKPOINT,
 * ROAM_CHECKPOINT_EVERY, ROAM_RESUME).  The directory is one of node 0's host.
 *
 * What is saved: the bytes of all blocks of the heap (and with them the statics of ROAM_SHARED),
 * and the private bytes that roam_resume_point names.  What is not: other private memory, files,
 * tuples, and the state of locks, conditions and flags.  In a resumed run all of these are as the
 * program has made them by then; locks and flags are free.  Only tuples that lie in the heap
 * (ROAM_PS_PAGES) are overwritten as blocks are: there must be none at a resume point.
 *
 * What the program must keep to.  A resumed run executes main up to CREATE again, and makes the
 * same blocks: the same calls of roam_alloc, roam_free and G_MALLOC in the same order, all of them
 * by node 0, or before CREATE by all processes alike.  Blocks that other nodes have allocated
 * cannot be saved: the call then returns ROAM_ESTATE.  Pointers into the heap stay right, because
 * the heap has one address.  Pointers to functions and statics of the program do if the program
 * lies where it lay: as it does under `roam run`.  A run may have another number of nodes than the
 * one that was saved if it makes the same blocks.
 *
 * A checkpoint is complete or not there: it is written beside the last one, and takes its place in
 * one step when all bytes are on the disk; then the last one is removed.  All bytes have checksums,
 * which are verified before anything is loaded.  Files in the directory that are not roam's stay;
 * where they are in the way, nothing is saved.  One job at a time saves to a directory.
 */
#ifndef ROAM_SAVE_H
#define ROAM_SAVE_H

#include <stdbool.h>
#include <stddef.h>

#include "roam/roam.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROAM_RESUME_BYTES_MAX 4096

/*
 * Saves the heap to a directory, which is made if it is not there; it is the user's alone (mode
 * 0700).  A full barrier: one thread of each node calls it (with ROAM_THREADS, all), no other
 * thread uses the heap meanwhile, and no thread holds a lock.  In a program that creates its nodes
 * node 0 may call it alone after WAIT_FOR_END.  Blocks until the bytes are on the disk.  Threads
 * that wait for others in these calls are reported as in roam_reduce, of which they are made.
 * Errors, the same on all nodes, with a line on stderr that says why: ROAM_EINVAL, ROAM_ESTATE (in
 * a transaction; a lock is held; a node other than 0 has blocks of its own), ROAM_ENOMEM,
 * ROAM_ESYSTEM (the directory; the disk is full; another job saves there).  The last checkpoint in
 * the directory stays valid in all of these cases.
 */
ROAM_RESULT enum roam_err roam_save(const char *directory);

/*
 * Replaces the bytes of all blocks of the heap by those that were saved.  Called as roam_save.
 * Errors, the same on all nodes, with a line on stderr that says why: those of roam_save, and
 * ROAM_ECHECKPOINT: there is none; files are damaged, or of another version; the heap has other
 * blocks, or another size; another program was saved, or, if the heap holds pointers to it, it lies
 * elsewhere now.  The heap is as it was in all of these cases but for a disk that fails while it is
 * read for the second time.
 */
ROAM_RESULT enum roam_err roam_load(const char *directory);

/*
 * A point at which the program may be saved and resumed; best at the beginning of each outer step.
 * Called as roam_save; each thread passes private bytes of its own, ROAM_RESUME_BYTES_MAX at most,
 * and all threads as many, which may be 0.
 *
 * Without ROAM_CHECKPOINT and ROAM_RESUME it does nothing and does not synchronise; if one of them
 * is set and it was never called, a line at the end says so.  With them it
 * is a full barrier.  The first call of a resumed run loads the heap and this thread's private
 * bytes, and returns true; in a run with another number of threads all get those of thread 0.  In a
 * program that creates its nodes several times this is the first call in the round of CREATE that
 * was saved: in earlier rounds, which are run again, the calls do nothing.  Other calls save both
 * if ROAM_CHECKPOINT_EVERY seconds have passed since the first call or the last checkpoint, and
 * return false.  An error, which is told in one line, ends the job, except that a job goes on that
 * cannot save: it says so once.
 */
bool roam_resume_point(void *state, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
