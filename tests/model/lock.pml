/*
 * A lock's record on one host (rule 5.1): the token lies there while no node holds it; a node that
 * wants it swaps the tail, and where another node has the token, links itself behind that one.
 *
 * Shared: the record's word (tail, taken), clock, and a link for each node.  Each node: its part of
 * the lock under a spin lock (token, asked, next, tickets, serving, next_after, holder), its clock
 * `seen`, a queue of messages that its service process handles.
 *
 *	take:	 swap: (tail, taken) becomes (me, taken).  It was free: the token is here; unless we
 *		 had it last, learn the record's clock.  Else: link[old tail] = me
 *	unlock:	 release; no next, no link and no thread waits: write the clock, then, if the word is
 *		 still (me, taken), it becomes (me, free), token gone, else wait for the link.  A
 *		 link is the next, after the threads that wait now: take it off.  It is the next's
 *		 turn: grant, and take again if own threads wait
 *	grant:	 learn the granter's clock; the token is here
 *
 * Every change of the word is a locked instruction of x86, which drains the store buffer: steps are
 * those of sequential consistency.
 *
 * Shown: at most one thread holds the lock; a holder has seen every critical section before;
 * every thread gets through.
 *
 * Build switches: NODES, THREADS of each, TURNS of each thread, and one of the mutants
 *	MUTANT_LATE_CLOCK	the clock is written after the token is free
 *	MUTANT_BLIND_FREE	the word becomes free whichever node is the tail
 *	MUTANT_NO_LEARN		a node that takes a free token does not read its clock
 *	MUTANT_NO_WAIT		an unlock does not wait for the link of the node that has swapped the tail
 *	MUTANT_EARLY_FREE	the token is put back before the release
 *	MUTANT_STALE_WORD	the word is read and written in two steps
 */
#ifndef NODES
#define NODES 3
#endif
#ifndef THREADS
#define THREADS 1
#endif
#ifndef TURNS
#define TURNS 2
#endif

#define NOBODY 255
#define ALL    (NODES * THREADS)

byte tail, clock;
bit taken;
byte sections, inside, done; /* critical sections so far; threads in one; threads at the end */

typedef node {
	bit spin, token, asked, holder;
	byte next, tickets, serving, next_after, seen;
};
node nodes[NODES];
byte links[NODES]; /* the node that stands behind each; NOBODY */
chan to[NODES] = [NODES + 1] of { byte }; /* grants: a clock */

#define N nodes[me]

inline learn(what)
{
	if
	:: N.seen < what -> N.seen = what
	:: else
	fi
}

inline spin_lock()
{
	atomic { N.spin == 0 -> N.spin = 1 }
}

inline grant()
{
	d_step {
		assert(N.token && N.next != NOBODY);
		N.token = 0;
		N.asked = 0;
		to[N.next] ! N.seen;
		N.next = NOBODY;
	}
}

/* The spin is held. */
inline take()
{
#ifdef MUTANT_STALE_WORD
	atomic { old_tail = tail; was = taken }
	atomic { tail = me; taken = 1 }
#else
	atomic { old_tail = tail; was = taken; tail = me; taken = 1 }
#endif
	if
	:: was ->
		N.asked = 1;
		assert(old_tail != me);
		links[old_tail] = me
	:: else ->
#ifndef MUTANT_NO_LEARN
		if
		:: old_tail != me -> learn(clock)
		:: else
		fi;
#endif
		N.token = 1
	fi
}

/* The spin is held. */
inline put_back()
{
#ifndef MUTANT_LATE_CLOCK
	clock = N.seen;
#endif
	atomic {
		if
#ifdef MUTANT_BLIND_FREE
		:: true -> taken = 0; N.token = 0
#else
		:: tail == me && taken -> taken = 0; N.token = 0
		:: else
#endif
		fi
	}
#ifdef MUTANT_LATE_CLOCK
	clock = N.seen
#endif
}

/* The spin is held. */
inline pass()
{
	who = links[me];
	if
	:: N.next == NOBODY && who == NOBODY && N.tickets == N.serving ->
		put_back();
#ifndef MUTANT_NO_WAIT
		(!N.token || links[me] != NOBODY);
#endif
		who = links[me]
	:: else
	fi;
	if
	:: N.next == NOBODY && N.token && who != NOBODY ->
		assert(who != me);
		links[me] = NOBODY;
		N.next = who;
		N.next_after = N.tickets
	:: else
	fi
}

inline release()
{
	N.seen = (N.seen < mine -> mine : N.seen)
}

proctype thread(byte me)
{
	byte turn, ticket, old_tail, mine, who;
	bit was;

	do
	:: turn < TURNS ->
		spin_lock();
		ticket = N.tickets;
		N.tickets++;
		if
		:: !N.token && !N.asked -> take()
		:: else
		fi;
		N.spin = 0;
		atomic {
			N.spin == 0 && N.token && N.serving == ticket && !N.holder &&
				!(N.next != NOBODY && ticket == N.next_after) -> N.holder = 1
		}
		atomic {
			inside++;
			assert(inside == 1);
			assert(N.seen >= sections);
			sections++;
			mine = sections
		}
		inside--;
#ifndef MUTANT_EARLY_FREE
		release();
#endif
		spin_lock();
		d_step {
			N.holder = 0;
			N.serving++
		}
		pass();
		if
		:: N.next != NOBODY && N.serving == N.next_after ->
			grant();
			if
			:: N.tickets != N.serving -> take()
			:: else
			fi
		:: else
		fi;
		N.spin = 0;
#ifdef MUTANT_EARLY_FREE
		release();
#endif
		turn++
	:: else -> break
	od;
	done++
}

proctype service(byte me)
{
	byte what;

end:	do
	:: to[me] ? what ->
		spin_lock();
		d_step {
			assert(!N.token && N.asked);
			learn(what);
			N.token = 1;
			N.asked = 0
		}
		N.spin = 0
	od
}

/* No process can move: then all are through. */
active proctype stuck()
{
end:	timeout -> assert(done == ALL)
}

init
{
	byte i, j;

	atomic {
		for (i : 0 .. NODES - 1) {
			nodes[i].next = NOBODY;
			links[i] = NOBODY;
			run service(i);
			for (j : 1 .. THREADS) {
				run thread(i)
			}
		}
	}
}
