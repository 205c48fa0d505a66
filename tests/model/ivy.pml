/*
 * ivy: one page of protocols/ivy.c, with dynamic probable owners, or fixed managers (-DFIXED).
 *
 * Each node: a thread that faults and accesses, a handler, and the page: state, access, whether a
 * fault works on it, whether it may not leave yet (`fresh`: until the access that faulted was made,
 * or, with SHORT, any time), the probable owner, the copyset.  Messages of one sender to one
 * receiver keep their order; what is kept (parked for the page, or delayed) is tried again whenever
 * that could help.  Answers travel by themselves.
 *
 *	read:	  ask towards the owner, which adds the reader to the copyset; the copy is open
 *	write:	  ask towards the owner, which gives the page and the copyset away; have each copy
 *		  invalidated; write once all have answered
 *	handler:  at the owner, unless a fault works on the page: serve.  A node that asked to be
 *		  owner keeps requests.  Others pass them on; a write's asker is the new guess.  An
 *		  invalidation waits for a copy on its way, never for a write under way
 *
 * Shown: one owner, or none while the page is given to an asker; a writer is alone; every
 * read sees the last write, and every write is made to it (no lost update); all get through; but
 * for SHORT, no request is passed on more than HOPS times.  If pages leave before they are used, as
 * in SHORT, two writers can take a page from each other for ever: that is what the window is for.
 * It is a time, and grows each time that the thread comes back for nothing (roami_stay_ns): so it
 * ends too early at most so often for one access until it is longer than any thread is kept from
 * running.  With TRIES, that number, there must be no cycle in which no node gets on (pan -l).
 *
 * Build switches: NODES, OPS of each node, FIXED, EVICT (copies are given up), SHORT, TRIES (with
 * SHORT), HOPS, and one of
 *	MUTANT_OVERTAKEN	an invalidation does not wait for the copy that it means
 *	MUTANT_WRITES_ON	the owner serves a read and can still write
 *	MUTANT_FORGOTTEN	the reader is not in the copyset
 *	MUTANT_EARLY_WRITE	the writer does not wait for the last answer
 *	MUTANT_INVALIDATE_WAITS	an invalidation waits for a write under way
 *	MUTANT_SILENT_EVICTION	the owner does not hear that a copy was given up
 *	MUTANT_NOT_KEPT		a node that asked to be owner passes requests on
 *	MUTANT_SAME_STAY	the window does not grow (with TRIES)
 */
#ifndef NODES
#define NODES 3
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef HOPS
#define HOPS 6
#endif
#define MANAGER (NODES - 1)
#define BIT(n) (1 << (n))

mtype = { READ, WRITE, INVALIDATE, DROP, NONE, FETCH, COPY, EVICTED, ASKED, SHARED, OWNER };

/* Access: 0 none, 1 read, 2 write. */
typedef node {
	mtype state;
	byte access, owner, copies, value;
	bit pending, fresh;
#ifdef TRIES
	byte tries; /* windows of the access under way that ended too early */
#endif
};
node nodes[NODES];
byte latest, done;

chan to[NODES * NODES] = [3] of { mtype, byte, byte }; /* request, the node that asks, passed on so often */
chan kept[NODES] = [NODES] of { mtype, byte, byte };
chan kept_invalidations[NODES] = [NODES] of { byte };
chan page[NODES] = [1] of { byte, bit, byte }; /* copyset, whether bytes came, bytes */
chan answers[NODES] = [NODES] of { bit };

#define ME nodes[me]
#define OWNS (ME.state == OWNER || ME.state == SHARED)

inline alone()
{
	i = 0;
	do
	:: i < NODES ->
		assert(i == me || nodes[i].access == 0);
		i++
	:: else -> break
	od;
	i = 0
}

/* Where a request goes first. */
inline ask(what)
{
	atomic {
#ifdef FIXED
		i = (me == MANAGER -> ME.owner : MANAGER);
#else
		i = ME.owner;
#endif
		to[me * NODES + i] ! what(me, 0);
		i = 0
	}
}

inline leave()
{
	ask(DROP);
	answers[me] ? _;
	atomic {
		if
		:: ME.state == EVICTED -> ME.state = NONE
		:: else
		fi
	}
}

inline read_fault()
{
	if
	:: atomic { OWNS -> ME.access = (ME.state == OWNER -> 2 : 1) }
	:: else ->
		if
		:: ME.state == EVICTED -> leave()
		:: else
		fi;
		ME.state = FETCH;
		ask(READ);
		page[me] ? _, _, ME.value;
		ME.access = 1;
		atomic {
			ME.fresh = 1;
			ME.state = COPY
		}
	fi
}

inline write_fault()
{
	if
	:: OWNS
	:: else ->
		if
		:: ME.state == EVICTED -> leave()
		:: else
		fi;
		ME.state = ASKED;
		ask(WRITE);
		atomic {
			page[me] ? set, bytes, got;
			if
			:: bytes -> ME.value = got
			:: else -> assert(ME.access == 1)
			fi;
			got = 0;
			ME.copies = set;
			set = 0
		}
	fi;
	i = 0;
	do
	:: i < NODES ->
		atomic {
			if
			:: (ME.copies & BIT(i)) != 0 ->
				to[me * NODES + i] ! INVALIDATE(me, 0);
				waiting++
			:: else
			fi;
			i++
		}
	:: else -> break
	od;
	i = 0;
#ifdef MUTANT_EARLY_WRITE
	waiting = (waiting > 0 -> waiting - 1 : 0);
#endif
	do
	:: waiting > 0 -> answers[me] ? _; waiting--
	:: else -> break
	od;
	atomic {
		ME.copies = 0;
		ME.fresh = 1;
		ME.state = OWNER
	}
	ME.access = 2
}

proctype thread(byte me)
{
	byte op, need, i, set, got, waiting;
	bit bytes;

	do
	:: op < OPS ->
		if
		:: need = 1
		:: need = 2
		fi;
		do
		:: atomic {
			ME.access >= need ->
			assert(ME.value == latest);
			if
			:: need == 2 ->
				alone();
				latest++;
				ME.value = latest
			:: else
			fi;
			need = 0;
			ME.fresh = 0;
#ifdef TRIES
			ME.tries = 0;
#endif
			break
		   }
		:: ME.access < need ->
			ME.pending = 1;
			if
			:: ME.access >= need
			:: need == 1 && ME.access < 1 -> read_fault()
			:: need == 2 && ME.access < 2 -> write_fault()
			fi;
			ME.pending = 0
		od;
#ifdef EVICT
		atomic {
			if
			:: ME.state == COPY ->
				ME.access = 0;
#ifdef MUTANT_SILENT_EVICTION
				ME.state = NONE
#else
				ME.state = EVICTED
#endif
			:: true
			fi
		}
#endif
progress:	op++
	:: else -> break
	od;
	done++
}

/* The page lock is held. */
inline serve(what)
{
	if
	:: what == READ ->
#ifndef MUTANT_WRITES_ON
		ME.access = (ME.access > 1 -> 1 : ME.access);
#endif
		ME.state = SHARED;
#ifndef MUTANT_FORGOTTEN
		ME.copies = ME.copies | BIT(who);
#endif
		page[who] ! 0, 1, ME.value
	:: what == WRITE ->
		ME.access = 0;
		ME.state = NONE;
		if
		:: (ME.copies & BIT(who)) != 0 -> page[who] ! ME.copies & ~BIT(who), 0, 0
		:: else -> page[who] ! ME.copies, 1, ME.value
		fi;
		ME.copies = 0;
		ME.owner = who
	:: what == DROP ->
		ME.copies = ME.copies & ~BIT(who);
		answers[who] ! 1
	fi
}

inline request(what)
{
	if
#ifndef MUTANT_NOT_KEPT
	:: ME.state == ASKED || (OWNS && ME.pending) -> kept[me] ! what(who, hops)
	:: ME.state != ASKED && !OWNS ->
#else
	:: OWNS && ME.pending -> kept[me] ! what(who, hops)
	:: !OWNS ->
#endif
#ifdef SHORT
		to[me * NODES + ME.owner] ! what(who, 0);
#else
		assert(hops < HOPS);
		to[me * NODES + ME.owner] ! what(who, hops + 1);
#endif
		if
		:: what == WRITE -> ME.owner = who
		:: else
		fi
	:: OWNS && !ME.pending ->
		if
		:: ME.fresh && (what == WRITE || ME.state == OWNER) -> kept[me] ! what(who, hops)
		:: else -> serve(what)
		fi
	fi
}

#ifdef MUTANT_OVERTAKEN
#define MUST_WAIT ME.fresh
#elif defined(MUTANT_INVALIDATE_WAITS)
#define MUST_WAIT (ME.fresh || ME.state == FETCH || ME.state == ASKED)
#else
#define MUST_WAIT (ME.fresh || ME.state == FETCH)
#endif

inline invalidate()
{
	if
	:: MUST_WAIT -> kept_invalidations[me] ! who
	:: else ->
#ifndef MUTANT_OVERTAKEN
		assert(ME.state == COPY || ME.state == EVICTED || ME.state == ASKED);
#endif
		ME.access = 0;
		if
		:: ME.state == COPY || ME.state == EVICTED -> ME.state = NONE
		:: else
		fi;
#ifndef FIXED
		ME.owner = who;
#endif
		answers[who] ! 1
	fi
}

inline forget()
{
	who = 0;
	hops = 0;
	what = 0
}

#define ARRIVES(from)                                                       \
	atomic {                                                            \
		to[from * NODES + me] ? what(who, hops);                    \
		if                                                          \
		:: what == INVALIDATE -> invalidate()                       \
		:: else -> request(what)                                    \
		fi;                                                         \
		forget()                                                    \
	}

proctype handler(byte me)
{
	byte who, hops;
	mtype what;

end:	do
	:: ARRIVES(0)
	:: ARRIVES(1)
#if NODES > 2
	:: ARRIVES(2)
#endif
#if defined(TRIES) && !defined(MUTANT_SAME_STAY)
	:: atomic { ME.fresh && ME.tries < TRIES -> ME.fresh = 0; ME.tries++ }
#elif defined(SHORT)
	:: atomic { ME.fresh -> ME.fresh = 0 }
#endif
	:: atomic {
		!ME.pending && !ME.fresh && nempty(kept[me]) ->
		kept[me] ? what(who, hops);
		request(what);
		forget()
	   }
	:: atomic {
		!(MUST_WAIT) && nempty(kept_invalidations[me]) ->
		kept_invalidations[me] ? who;
		invalidate();
		forget()
	   }
	od
}

/* No process can move: then all are through, and the page is where it was written last. */
active proctype stuck()
{
	byte i, owners;

end:	timeout ->
	assert(done == NODES);
	for (i : 0 .. NODES - 1) {
		if
		:: nodes[i].state == OWNER || nodes[i].state == SHARED ->
			owners++;
			assert(nodes[i].value == latest)
		:: else
		fi
	}
	assert(owners == 1)
}

init
{
	byte i;

	atomic {
		for (i : 0 .. NODES - 1) {
			nodes[i].state = (i == 0 -> OWNER : NONE);
			run handler(i);
			run thread(i)
		}
	}
}
