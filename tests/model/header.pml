/*
 * The page header protocol (rules 6.6, 6.7): a home that writes its own page without detection
 * until it is fetched, fetchers that copy it one-sidedly, notices that ride on a token.
 *
 * At the home, visible to all: data, version, `mark`, and for each fetcher a list (tail and slots)
 * of the pages it newly shared.  The mark is a generation and two flags: shared, a node may have a
 * copy or be about to make one; listed, a list holds the page or held it in this generation.  The
 * home starts a new generation when it goes back to unseen writes after a page was shared.
 *
 *	fetch:	  m = mark; not listed: mark |= shared, append to own list, compare-and-swap
 *		  m | shared -> m | shared | listed, begin again if the generation moved;
 *		  full fence; have = version; copy; generation moved: begin again; install
 *	touch:	  the home's first: its page is open for writing if the mark has no flag, else
 *		  for reading; later writes to a page open for reading are noted
 *	release:  full fence; drain the lists; a page drained that is open for unseen writes, or
 *		  noted as written: either protect, version++, notice (version)
 *		  or unshare: mark to the next generation, *then* version++, notice
 *	acquire:  need = max(need, notices); have < need: the copy is invalid
 *
 * Shown: after an acquire that follows the release of the interval that wrote x, a read returns x
 * or newer, through a kept copy or a new fetch; at each fetch version >= need (rule 6.1).
 *
 * Build switches: FETCHERS, INTERVALS, WRITES (in all), BURST (at most so many in an interval), and
 * one of the mutants
 *	MUTANT_HOME_FENCE	no fence at the home's release
 *	MUTANT_FETCH_FENCE	nothing orders the list's stores before the copy
 *	MUTANT_LATE_VERSION	version read after the copy
 *	MUTANT_BUMP_FIRST	version++ before the mark is cleared
 *	MUTANT_NO_RECHECK	mark not read again after the copy
 *	MUTANT_NO_GENERATION	the second look compares the flag, not the generation
 *	MUTANT_FLAG_FIRST	flag set by fetch-or, list appended only by one that found it clear: a
 *				second fetcher trusts a list that does not hold the page yet
 *	MUTANT_LATE_SHARED	no shared flag before the list: the home drains the list before it
 *				touches the page, then sees no flag
 *	MUTANT_NO_NEED		a notice does not invalidate an older copy
 *	MUTANT_NO_PROTECT	a newly shared page is not protected
 */
#ifndef FETCHERS
#define FETCHERS 2
#endif
#ifndef INTERVALS
#define INTERVALS 3
#endif
#ifndef WRITES
#define WRITES 2
#endif
#ifndef BURST
#define BURST WRITES
#endif
#define SLOTS 5

#define PROCS (FETCHERS + 1)
#define HOME FETCHERS
#define DATA 0
#define MARK 1
#define VERSION 2
#define TOKEN 3
#define TAIL(f) (4 + (f))
#define SLOT(f, i) (4 + FETCHERS + (f) * SLOTS + (i))
#define CELLS (4 + FETCHERS + FETCHERS * SLOTS)

#define PAGE 1
#define SHARED 1
#define LISTED 2
#define IS_LISTED(m) (((m) & LISTED) != 0)
#define GENERATION(m) ((m) >> 2)

#include "tso.pml"

/* What a token carries: the notice, and (ghost) the newest value that its holder must see. */
#define TOKEN_OF(need, must) ((need) << 3 | (must))
#define TOKEN_NEED(token) ((token) >> 3)
#define TOKEN_MUST(token) ((token) & 7)

active proctype home() {
	byte head[FETCHERS];
	byte interval = 0;
	byte value = 0;
	byte need = 0;
	byte f = 0;
	byte t = 0;
	bool touched = false;
	bool seen = true; /* the page has no access, or is protected, or was opened by a noted write */
	bool written = false;
	bool drained;

	do
	:: interval < INTERVALS ->
		f = 0;
		do
		:: value < WRITES && f < BURST ->
			f++;
			if
			:: !touched ->
				fence(HOME);
				d_step {
					seen = (mem[MARK] & (SHARED | LISTED)) != 0;
					touched = true
				}
			:: else
			fi;
			if
			:: seen -> written = true
			:: else
			fi;
			value++;
			store(HOME, DATA, value)
		:: break
		od;
		f = 0;

		/* release */
#ifndef MUTANT_HOME_FENCE
		fence(HOME);
#endif
		do
		:: f < FETCHERS ->
			d_step {
				t = mem[TAIL(f)];
				do
				:: head[f] != t ->
					assert(mem[SLOT(f, head[f])] == PAGE);
					head[f]++;
					drained = true
				:: else -> break
				od;
				t = 0;
				f++
			}
		:: else -> break
		od;
		f = 0;
		if
		:: (drained && !seen) || written ->
			if
			:: true -> /* protect */
#ifndef MUTANT_NO_PROTECT
				seen = true;
#endif
				written = false;
				fetch_add(HOME, VERSION, 1)
			:: true -> /* unshare */
				seen = false;
				written = false;
#ifdef MUTANT_BUMP_FIRST
				fetch_add(HOME, VERSION, 1);
#endif
				d_step {
					sb[HOME].n == 0;
#if defined(MUTANT_FLAG_FIRST) || defined(MUTANT_NO_GENERATION)
					mem[MARK] = 0
#else
					mem[MARK] = (GENERATION(mem[MARK]) + 1) << 2
#endif
				}
#ifndef MUTANT_BUMP_FIRST
				fetch_add(HOME, VERSION, 1)
#endif
			fi;
			load(HOME, VERSION, need)
		:: else
		fi;
		drained = false;
		interval++;
		store(HOME, TOKEN, TOKEN_OF(need, value))
	:: else -> break
	od
}

/* Appends the page to the fetcher's own list. */
inline list_append() {
	assert(tail < SLOTS);
	store(me, SLOT(me, tail), PAGE);
	tail++;
	store(me, TAIL(me), tail)
}

/* Sees to it that the home will find the page listed; `mark` is the mark this fetch relies on. */
inline page_share() {
	load(me, MARK, mark);
	if
	:: !IS_LISTED(mark) ->
#ifndef MUTANT_LATE_SHARED
		d_step {
			sb[me].n == 0;
			again = (mem[MARK] & SHARED) == 0;
			mem[MARK] = mem[MARK] | SHARED;
			mark = mem[MARK]
		}
#endif
#ifdef MUTANT_FLAG_FIRST
		if
		:: again -> list_append()
		:: else
		fi;
		fence(me);
		again = false
#else
		list_append();
#ifdef MUTANT_FETCH_FENCE
		store(me, MARK, mark | LISTED);
		again = false
#else
		d_step {
			sb[me].n == 0;
			again = GENERATION(mem[MARK]) != GENERATION(mark);
			mem[MARK] = (mem[MARK] == mark -> mark | LISTED : mem[MARK])
		}
#endif
#endif
	:: else
	fi
#ifndef MUTANT_FETCH_FENCE
	;
	fence(me)
#endif
}

inline page_copy() {
#ifdef MUTANT_LATE_VERSION
	load(me, DATA, copy);
	load(me, VERSION, have);
#else
	load(me, VERSION, have);
	load(me, DATA, copy);
#endif
	assert(have >= need)
}

/* Whether the mark moved on since. */
inline page_recheck() {
	d_step {
#ifdef MUTANT_NO_RECHECK
		again = false;
#elif defined(MUTANT_FLAG_FIRST) || defined(MUTANT_NO_GENERATION)
		again = (mem[MARK] & (SHARED | LISTED)) == 0;
#else
		again = GENERATION(mem[MARK]) != GENERATION(mark);
#endif
		mark = 0;
		assert(again || copy >= must)
	}
}

proctype fetcher(byte me) {
	byte need = 0;
	byte must = 0;
	byte tail = 0;
	byte mark = 0;
	byte have = 0;
	byte copy = 0;
	bool valid = false;
	bool again = false;

end:	do
	:: !valid ->
		do
		:: page_share();
			if
			:: again -> again = false
			:: else ->
				page_copy();
				page_recheck();
				if
				:: again ->
					d_step {
						again = false;
						have = 0;
						copy = 0
					}
				:: else -> break
				fi
			fi
		od;
		valid = true
	:: d_step {
		mem[TOKEN] != TOKEN_OF(need, must) -> /* acquire */
			need = TOKEN_NEED(mem[TOKEN]);
			must = TOKEN_MUST(mem[TOKEN]);
#ifndef MUTANT_NO_NEED
			if
			:: valid && have < need ->
				valid = false;
				have = 0;
				copy = 0
			:: else
			fi;
#endif
			assert(!valid || copy >= must)
	}
	od
}

init {
	byte i = 0;

	atomic {
		do
		:: i < FETCHERS ->
			run fetcher(i);
			run flusher(i);
			i++
		:: else -> break
		od;
		run flusher(HOME)
	}
}
