/*
 * A lock's record on one host (rule 5.1): the token lies there while no node holds it; a node that
 * finds it taken queues; a node that finds it there may take it out of turn.
 *
 * Shared: the record's word (holder, head and tail of the queue, taken, called, due), clock, and a link
 * for each node.  Each node: its part of the lock under a spin lock (token, holds, queued, next, tickets,
 * serving, next_after), its clock `seen`, its bell, a queue of messages that its service process
 * handles.  Time is left out: whoever may take the token once it has lain there for a while takes it at any
 * time, so that WORD_KEPT and WORD_EAGER, which only say how long, are not modelled.
 *
 *	ask:	 the token is there, and no other head is due: it is taken.  Else tail = me, and if the
 *		 queue was not empty, link[old tail] = me
 *	take:	 taken, holder = me; unless we had it last, learn the record's clock.  The head leaves the
 *		 queue, unless the node behind it has not linked itself yet
 *	look:	 the next thread of its node takes the token if it may; at the head: called, perhaps due
 *	doze:	 at the head, while the token is taken: not called any more, and perhaps naps.  It looks
 *		 once more, and sleeps until the bell rings, or its nap is over
 *	unlock:	 release; write the clock; free.  The head leaves first, waiting for the link of the node
 *		 behind it.  A head that is not called is called, unless it naps and the holder keeps the token,
 *		 which it may do though it never takes it again.  Threads of the node that wait when another
 *		 node is first seen to wait go before it
 *	call:	 if no thread of the node waits, and it is at the head, it leaves, and calls the next one if
 *		 the token is there; or it stays, not called any more, while the token is taken
 *
 * The bell is that of the one thread of its node which may take the token: no other one sleeps by it, so
 * that none takes another's ring away.  In the code it is a count, of which the sleeper has read the value
 * before it looks.  An unlock clears it only to have fewer states: the next one that sleeps clears it anyhow.
 *
 * Every change of the word is a locked instruction of x86, which drains the store buffer: steps are
 * those of sequential consistency.
 *
 * Shown: at most one thread holds the lock; a holder has seen every critical section before; no node
 * takes the token while another one at the head is due; every thread gets through.
 *
 * Build switches: NODES, THREADS of each, TURNS of each thread, GIVES_UP: a thread may give up each wait,
 * DUE: a head may be due, NAPS: it may nap (two nodes of two threads that give up have too many states for
 * 6 GiB), and one of the mutants
 *	MUTANT_LATE_CLOCK	the clock is written after the token is free
 *	MUTANT_NO_LEARN		a node that takes a free token does not read its clock
 *	MUTANT_NO_WAIT		the head leaves before the node behind it has linked itself
 *	MUTANT_EARLY_FREE	the token is put back before the release
 *	MUTANT_STALE_WORD	the word is read and written in two steps
 *	MUTANT_NO_CALL		an unlock calls nobody
 *	MUTANT_CALLED_ASLEEP	the head sleeps and still says that it looks
 *	MUTANT_ASLEEP_AT_ONCE	the head does not look once more before it sleeps
 *	MUTANT_PLACE_KEPT	a node that is called stays though no thread of it waits
 *	MUTANT_LEFT_UNTOLD	a node that leaves does not call the next one
 *	MUTANT_STAYS_UNCALLED	a node that stays still says that it looks
 *	MUTANT_NAPS_ON		a nap ends only when the head is called
 *	MUTANT_NOT_DUE		a node takes the token though another one is due
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

byte holder, head = NOBODY, tail = NOBODY, clock;
bit taken, called, due, naps;
byte sections, inside, done; /* critical sections so far; threads in one; threads at the end */

typedef node {
	bit spin, token, holds, queued, next, bell;
	byte tickets, serving, next_after, seen;
};
node nodes[NODES];
byte links[NODES]; /* the node that stands behind each; NOBODY */
chan to[NODES] = [NODES + 2] of { bit }; /* calls */

#define N nodes[me]

#define OTHERS  (head != NOBODY && !(head == me && tail == me))
#define LINKED  (!(head == me && tail != me && links[me] == NOBODY))
#ifdef MUTANT_NOT_DUE
#define OPEN    (!taken)
#else
#define OPEN    (!taken && (head == me || !due))
#endif

#ifdef MUTANT_CALLED_ASLEEP
#define TOLD    0
#else
#define TOLD    (head == me && called)
#endif

#ifdef MUTANT_NAPS_ON
#define RESTED  0
#else
#define RESTED  (head == me && naps)
#endif

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

/* This node, at the head, leaves the queue, as far as that can be.  In an atomic. */
inline leave()
{
	called = 0;
	due = 0;
	naps = 0;
	if
	:: tail == me -> head = NOBODY; tail = NOBODY; N.queued = 0
	:: tail != me && links[me] != NOBODY -> head = links[me]; links[me] = NOBODY; N.queued = 0
	:: else
#ifdef MUTANT_NO_WAIT
		-> head = NOBODY; N.queued = 0
#endif
	fi
}

/* In an atomic; the spin is held. */
inline take()
{
	assert(!taken && !N.token);
	assert(!due || head == me);
	old = holder;
	taken = 1;
	holder = me;
	if
	:: head == me -> leave()
	:: head == me -> called = 0; due = 0; naps = 0 /* the link came just now */
	:: else
	fi;
	N.token = 1
}

/* After that. */
inline taken_from()
{
#ifndef MUTANT_NO_LEARN
	if
	:: old != me -> learn(clock)
	:: else
	fi;
#endif
	old = 0
}

/* In an atomic; the spin is held. */
inline queue()
{
	old_tail = tail;
	tail = me;
	N.queued = 1;
	if
	:: head == NOBODY -> head = me; called = 1
	:: else
	fi
}

inline link()
{
	if
	:: old_tail != NOBODY -> assert(old_tail != me); links[old_tail] = me
	:: else
	fi;
	old_tail = 0
}

/* The head has to be called if the token is free.  In an atomic. */
inline calls()
{
	who = NOBODY;
	if
	:: !taken && head != NOBODY && !called ->
#ifndef MUTANT_NO_CALL
		called = 1;
		naps = 0;
		who = head
#endif
#ifdef NAPS
	:: !taken && naps
#endif
	:: else
	fi
}

inline call()
{
	if
	:: who != NOBODY -> assert(who != me); to[who] ! 1; nodes[who].bell = 1
	:: else
	fi;
	who = 0
}

/* The spin is held. */
inline free()
{
#ifndef MUTANT_LATE_CLOCK
	clock = N.seen;
#endif
	atomic {
#ifndef MUTANT_NO_WAIT
		LINKED ->
#endif
		assert(taken && holder == me);
		taken = 0;
		if
		:: head == me -> leave()
		:: else
		fi;
		calls();
		N.token = 0
	}
#ifdef MUTANT_LATE_CLOCK
	clock = N.seen;
#endif
	call()
}

/*
 * This node, at the head, leaves without the token, or stays, to be called at the next unlock.  The
 * spin is held.
 */
inline leave_alone()
{
	if
	:: atomic {
#ifndef MUTANT_NO_WAIT
		LINKED ->
#endif
		leave();
#ifdef MUTANT_LEFT_UNTOLD
		who = NOBODY
#else
		calls()
#endif
		}
#ifdef MUTANT_STAYS_UNCALLED
	:: taken ->
#else
	:: atomic { taken -> called = 0; due = 0; naps = 0 };
#endif
		who = NOBODY
	fi;
	call()
}

inline release()
{
	d_step {
		N.seen = (N.seen < mine -> mine : N.seen);
		mine = 0
	}
}

proctype thread(byte me)
{
	byte turn, ticket, old, old_tail, mine, who;
	bit doze, gone;

	do
	:: turn < TURNS ->
		gone = 0;
		doze = 0;
		spin_lock();
		ticket = N.tickets;
		N.tickets++;
		if
		:: N.token || (N.queued && N.tickets - N.serving > 1)
		:: else ->
#ifdef MUTANT_STALE_WORD
			if
			:: OPEN -> atomic { taken = 0; take() }; taken_from()
#else
			if
			:: atomic { OPEN -> take() }; taken_from()
#endif
			:: atomic { !N.queued -> queue() }; link()
			:: atomic { N.queued && !OPEN }
			fi
		fi;
		N.spin = 0;
		N.serving == ticket;
		do
		:: atomic { N.spin == 0 && N.token && !N.holds &&
				!(N.next && ticket == N.next_after) -> N.holds = 1 };
			break
		:: !N.token && !doze -> /* it looks, and takes the token if it may */
			spin_lock();
			if
			:: atomic { !N.token && OPEN -> take() }; taken_from()
			:: atomic { head == me && !called && !N.token -> called = 1; naps = 0 }
#ifdef DUE
			:: atomic { head == me && !due && taken && !N.token -> due = 1 }
#endif
			:: atomic { !N.token && (head != me || taken) -> doze = 1;
				if
#ifndef MUTANT_CALLED_ASLEEP
				:: head == me -> called = 0; naps = 0
#ifdef NAPS
				:: head == me && taken && !due -> called = 0; naps = 1
#endif
#endif
				:: else
				fi }
			:: N.token
			fi;
			N.spin = 0
		:: !N.token && doze -> /* it sleeps, unless there is something to look at */
			N.bell = 0;
			if
#ifndef MUTANT_ASLEEP_AT_ONCE
			:: OPEN || TOLD -> doze = 0
			:: !OPEN && !TOLD -> N.bell || N.token || RESTED; doze = 0
#else
			:: N.bell || N.token; doze = 0
#endif
			fi
#ifdef GIVES_UP
		:: !gone && !N.token ->
			spin_lock();
			if
			:: N.token -> N.spin = 0
			:: else ->
				gone = 1;
				N.serving++;
				if
				:: N.tickets == N.serving && N.queued && head == me -> leave_alone()
				:: else
				fi;
				N.spin = 0;
				break
			fi
#endif
		od;
		if
		:: gone -> turn++
		:: else ->
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
				N.holds = 0;
				N.serving++;
				N.bell = 0;
				ticket = 0
			}
			if
			:: !N.next && N.tickets == N.serving -> free()
			:: !N.next && N.tickets != N.serving && OTHERS -> N.next = 1; N.next_after = N.tickets
			:: else
			fi;
			if
			:: N.token && N.next && N.serving == N.next_after ->
				N.next = 0;
				free();
				if
				:: N.tickets != N.serving && !N.queued -> atomic { queue() }; link()
				:: else
				fi
			:: else
			fi;
			N.spin = 0;
#ifdef MUTANT_EARLY_FREE
			release();
#endif
			turn++
		fi
	:: else -> break
	od;
	done++
}

proctype service(byte me)
{
	byte who;

end:	do
	:: to[me] ? _ ->
		spin_lock();
		if
#ifndef MUTANT_PLACE_KEPT
		:: N.tickets == N.serving && N.queued && !N.token && head == me -> leave_alone()
#endif
		:: else
		fi;
		N.bell = 1;
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
			links[i] = NOBODY;
			run service(i);
			for (j : 1 .. THREADS) {
				run thread(i)
			}
		}
	}
}
