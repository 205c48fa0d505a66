/*
 * hlrc: versions, needs and notices over locks (rules 6.1 to 6.5), one page with two variables,
 * each guarded by a lock of its own, so that nodes write the page at the same time.
 *
 * The home keeps the page and its version.  Each node: a copy with `have`, the version read before
 * its bytes were, and `need`; a twin while it is dirty; a clock, up to where stale copies are gone,
 * and `seen`, up to where it knows of intervals.  A lock carries what its last holder had seen.
 * Notices are where all can read them: of each writer's intervals, the version.
 *
 *	acquire:  learn the lock's clock; need the versions of all intervals beyond the own clock; a
 *		  copy that has less goes, home first if it is dirty; then the clock moves
 *	access:	  fetch if there is no copy: version, then byte by byte; the first write makes a twin
 *	release:  bytes that differ from the twin go home, then the version counts up; a version that
 *		  is the next one makes the copy as new; the interval's notice; then the lock
 *
 * The home writes its page itself; that it is seen to is header.pml's matter.
 *
 * Shown: a holder of a lock reads what was written last under it; no write is lost.
 *
 * Build switches: NODES, THREADS of the last node (acquires and releases of a node's threads take
 * turns, accesses do not), OPS of its threads, OTHERS of the other nodes' (as many), and one of
 *	MUTANT_EARLY_NOTICE	the lock is free before the diff is home
 *	MUTANT_HAVE_JUMPS	the copy counts as new as its own diff, whatever came between
 *	MUTANT_LATE_VERSION	the version is read after the bytes
 *	MUTANT_NO_NEED		a fetch does not look whether a notice came meanwhile (THREADS=2)
 *	MUTANT_DIRTY_DROPPED	a dirty copy is dropped without its diff (THREADS=2)
 *	MUTANT_WHOLE_PAGE	all bytes go home, not those that differ
 *	MUTANT_CLOCK_FIRST	the clock moves before stale copies are gone (THREADS=2)
 */
#ifndef NODES
#define NODES 3
#endif
#ifndef THREADS
#define THREADS 1
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef OTHERS
#define OTHERS OPS
#endif
#define INTERVALS (2 * OPS * THREADS + 2)
#define ALL (NODES - 1 + THREADS)

typedef clock { byte at[NODES] };
typedef node {
	byte byte_of[2], twin[2]; /* at node 0, the home, byte_of is the page */
	byte have, need;
	bit valid, dirty, pending, busy; /* busy: a thread acquires or releases */
	clock seen, done;
};
typedef log { byte version[INTERVALS] };
node nodes[NODES];
log logs[NODES]; /* of interval i: the version; 0: it did not write */
clock known[2];  /* what a lock's last holder had seen */
bit held[2];
byte version = 1, count[2], finished;

#define ME nodes[me]
#define HOME nodes[0]

inline learn(to, from)
{
	d_step {
		i = 0;
		do
		:: i < NODES ->
			to.at[i] = (to.at[i] < from.at[i] -> from.at[i] : to.at[i]);
			i++
		:: else -> break
		od;
		i = 0
	}
}

/* The bytes that differ from the twin, then the version; an interval's notice has the newest. */
inline flush()
{
	if
	:: me == 0 -> atomic { version++; noted = version }
	:: else ->
		b = 0;
		do
		:: b < 2 ->
			atomic {
#ifndef MUTANT_WHOLE_PAGE
				if
				:: ME.byte_of[b] != ME.twin[b] ->
#endif
				HOME.byte_of[b] = ME.byte_of[b]
#ifndef MUTANT_WHOLE_PAGE
				:: else
				fi
#endif
			}
			b++
		:: else -> break
		od;
		b = 0;
		atomic {
			version++;
			noted = version;
#ifdef MUTANT_HAVE_JUMPS
			ME.have = noted
#else
			ME.have = (noted == ME.have + 1 -> noted : ME.have)
#endif
		}
	fi;
	ME.dirty = 0
}

/* Ends an interval with the version `noted`, 0: none. */
inline close_interval()
{
	d_step {
		ME.seen.at[me]++;
		ME.done.at[me] = ME.seen.at[me];
		assert(ME.seen.at[me] < INTERVALS);
		logs[me].version[ME.seen.at[me]] = noted;
		noted = 0
	}
}

inline acquire()
{
	atomic { !held[l] -> held[l] = 1 }
	atomic { !ME.busy -> ME.busy = 1 }
	learn(ME.seen, known[l]);
	learn(target, ME.seen);
#ifdef MUTANT_CLOCK_FIRST
	d_step {
		i = 0;
		do
		:: i < NODES -> done_before.at[i] = ME.done.at[i]; i++
		:: else -> break
		od;
		i = 0
	}
	learn(ME.done, target);
	ME.busy = 0;
#else
	learn(done_before, ME.done);
#endif
	if
	:: me == 0
	:: else ->
		d_step {
			i = 0;
			do
			:: i < NODES && done_before.at[i] < target.at[i] ->
				done_before.at[i]++;
				ME.need = (ME.need < logs[i].version[done_before.at[i]] ->
					logs[i].version[done_before.at[i]] : ME.need)
			:: i < NODES && done_before.at[i] >= target.at[i] -> i++
			:: else -> break
			od;
			i = 0
		}
		if
		:: atomic { ME.valid && ME.have < ME.need && !ME.pending -> ME.pending = 1 }
			ME.valid = 0;
			if
			:: ME.dirty ->
#ifdef MUTANT_DIRTY_DROPPED
				ME.dirty = 0
#else
				flush();
				close_interval()
#endif
			:: else
			fi;
			ME.pending = 0
		:: atomic { !ME.valid || ME.have >= ME.need } /* a fetch looks at `need` itself */
		fi
	fi;
#ifndef MUTANT_CLOCK_FIRST
	learn(ME.done, target);
	ME.busy = 0
#endif
}

inline fetch()
{
	do
	:: me == 0 || ME.valid -> break
	:: atomic { me != 0 && !ME.valid && !ME.pending -> ME.pending = 1 }
#ifndef MUTANT_LATE_VERSION
		ME.have = version;
#endif
		ME.byte_of[0] = HOME.byte_of[0];
		ME.byte_of[1] = HOME.byte_of[1];
#ifdef MUTANT_LATE_VERSION
		ME.have = version;
#endif
		atomic {
#ifdef MUTANT_NO_NEED
			ME.valid = 1;
#else
			ME.valid = (ME.have >= ME.need);
#endif
			ME.pending = 0
		}
	od
}

/* Open for writing, with a twin of this moment. */
inline write()
{
	if
	:: !ME.dirty && me != 0 ->
		ME.twin[0] = ME.byte_of[0];
		ME.twin[1] = ME.byte_of[1]
	:: else
	fi;
	ME.dirty = 1;
	count[l]++;
	ME.byte_of[l] = count[l]
}

inline release()
{
	atomic { !ME.busy -> ME.busy = 1 }
#ifdef MUTANT_EARLY_NOTICE
	learn(known[l], ME.seen);
	held[l] = 0;
#endif
	if
	:: atomic { ME.dirty && !ME.pending -> ME.pending = 1 }
		flush();
		close_interval();
		ME.pending = 0
	:: !ME.dirty
	fi;
#ifndef MUTANT_EARLY_NOTICE
	learn(known[l], ME.seen);
	held[l] = 0;
#endif
	ME.busy = 0
}

proctype thread(byte me)
{
	byte op, l, i, b, noted;
	bit writes;
	clock target, done_before;

	do
	:: op < (me == NODES - 1 -> OPS : OTHERS) ->
		if
		:: l = 0
		:: l = 1
		fi;
		acquire();
		if
		:: writes = 0
		:: writes = 1
		fi;
		do
		:: fetch();
			atomic {
				if
				:: (ME.valid || me == 0) && !(writes && ME.pending) ->
					assert(ME.byte_of[l] == count[l]);
					if
					:: writes -> write()
					:: else
					fi;
					break
				:: else
				fi
			}
		od;
		release();
		l = 0;
		writes = 0;
		op++
	:: else -> break
	od;
	finished++
}

/* No process can move: then all are through, and nothing was lost. */
active proctype stuck()
{
end:	timeout ->
	assert(finished == ALL);
	assert(HOME.byte_of[0] == count[0] && HOME.byte_of[1] == count[1])
}

init
{
	byte i;

	atomic {
		for (i : 0 .. NODES - 1) {
			run thread(i)
		}
#if THREADS > 1
		run thread(NODES - 1)
#endif
	}
}
