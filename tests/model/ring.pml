/*
 * Sleep and wake of a node (rule 4): senders that skip the wake-up when a process is awake,
 * application threads that poll while they wait and then sleep, the service thread that handles
 * what no other does.
 *
 * Shared: `busy` (threads awake in a wait, threads asleep in one), two futexes `app` and
 * `service`, `service_asleep`, the poll lock, one ring (tail, head) for each sender.
 *
 *	sender:	 publish; full fence; read busy: some awake: done; some asleep: app++, wake them;
 *		 else service++, wake the service thread if it sleeps
 *	poll:	 under the poll lock, tried once: handle all; if any was handled: full fence;
 *		 some asleep: app++, wake them, for their conditions may have become true
 *	wait:	 awake++; poll; condition true: awake--; messages pending and none awake: awake++
 *		 and go on, else leave.  Condition false: b = app; awake--, asleep++ at once;
 *		 neither condition nor messages: futex_wait(app == b); awake++, asleep-- at once
 *	service: poll; nothing: b = service; service_asleep = 1; full fence; no messages:
 *		 futex_wait(service == b); service_asleep = 0
 *
 * Shown, under weak fairness: in the end every message is handled and every waiter has left.  The
 * messages make the waiters' conditions true, the last ones more than once.
 *
 * The service thread's fence is there for the reader: futex_wait has one before it looks at the
 * word, and the sender rings before it reads service_asleep (NO_SERVICE_FENCE passes).  The others
 * are needed.
 *
 * Build switches: LIVENESS (the property above; without it: all is done when no process can move),
 * WAITERS, SENDERS, MESSAGES (of each sender), HEAD_FIRST (a message leaves the ring before its
 * handler runs, not after), NO_SERVICE_FENCE, and one of the mutants
 *	MUTANT_SEND_FENCE	no fence between publishing and reading busy
 *	MUTANT_HANDLED_FENCE	none between handling and reading busy
 *	MUTANT_SLEEP_CHECK	no look for messages and at the condition before an app sleeps
 *	MUTANT_SLEEP_CONDITION	no look at the condition
 *	MUTANT_SERVICE_CHECK	no look for messages before the service thread sleeps
 *	MUTANT_LEAVE_CHECK	a waiter leaves without a look for messages
 *	MUTANT_LATE_BELL	the futex's value is read after the last look, not before
 *	MUTANT_NO_BELL		the sender wakes the sleepers without app++
 */
#ifndef WAITERS
#define WAITERS 1
#endif
#ifndef SENDERS
#define SENDERS 1
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif

#define SERVICE WAITERS
#define SENDER(s) (WAITERS + 1 + (s))
#define PROCS (WAITERS + 1 + SENDERS)
#define BUSY 0
#define APP 1
#define BELL 2
#define SERVICE_ASLEEP 3
#define POLL_LOCK 4
#define TAIL(s) (5 + (s))
#define HEAD(s) (5 + SENDERS + (s))
#define CONDITION(w) (5 + 2 * SENDERS + (w))
#define CELLS (5 + 2 * SENDERS + WAITERS)

#define AWAKE(word) ((word) & 15)
#define ASLEEP(word) ((word) >> 4)

#include "tso.pml"

bool sleeping[PROCS];
byte left = 0;

/* The kernel looks at the word under its own lock, after a full barrier. */
inline futex_wait(p, word, value) {
	d_step {
		sb[p].n == 0;
		sleeping[p] = mem[word] == value
	}
	!sleeping[p]
}

inline futex_wake_app(p) {
	d_step {
		sb[p].n == 0;
		w = 0;
		do
		:: w < WAITERS ->
			sleeping[w] = false;
			w++
		:: else -> break
		od;
		w = 0
	}
}

inline futex_wake_service(p) {
	d_step {
		sb[p].n == 0;
		sleeping[SERVICE] = false
	}
}

/*
 * Whether a message waits.  One step: the head moves under the poll lock only, so loading it, then
 * the tail, finds what both were when the tail was loaded.
 */
inline look_pending(p, out) {
	d_step {
		s = 0;
		out = false;
		do
		:: s < SENDERS && !out ->
			load(p, HEAD(s), head);
			out = mem[TAIL(s)] != head;
			s++
		:: else -> break
		od;
		head = 0;
		s = 0
	}
}

/* Message `head` of a sender makes one waiter's condition true. */
inline handle(p, s, head) {
#ifdef HEAD_FIRST
	store(p, HEAD(s), head + 1);
#endif
	store(p, CONDITION((s + head) % WAITERS), 1);
#ifndef HEAD_FIRST
	store(p, HEAD(s), head + 1);
#endif
}

inline poll(p) {
	d_step {
		sb[p].n == 0;
		got = mem[POLL_LOCK] == 0;
		mem[POLL_LOCK] = 1;
		any = false
	}
	if
	:: got ->
		do
		:: s < SENDERS ->
			d_step {
				load(p, HEAD(s), head);
				got = mem[TAIL(s)] != head;
				any = any || got;
				s = (got -> s : s + 1)
			}
			if
			:: got -> handle(p, s, head)
			:: else
			fi
		:: else -> break
		od;
		d_step {
			sb[p].n < SB_MAX;
			store(p, POLL_LOCK, 0);
			s = 0;
			head = 0
		}
		if
		:: any ->
#ifndef MUTANT_HANDLED_FENCE
			fence(p);
#endif
			d_step {
				load(p, BUSY, word);
				got = ASLEEP(word) > 0;
				word = 0
			}
			if
			:: got ->
				fetch_add(p, APP, 1);
				futex_wake_app(p)
			:: else
			fi
		:: else
		fi
	:: else
	fi
}

proctype waiter(byte me) {
	byte s, w, head, word, bell;
	bool got, any, met;

	fetch_add(me, BUSY, 1);
	do
	:: poll(me);
		d_step {
			load(me, CONDITION(me), met);
			got = false;
			any = false
		}
		if
		:: met ->
			fetch_add(me, BUSY, -1);
#ifndef MUTANT_LEAVE_CHECK
			look_pending(me, any);
#endif
			if
			:: any ->
				d_step {
					load(me, BUSY, word);
					any = AWAKE(word) == 0;
					word = 0
				}
			:: else
			fi;
			if
			:: any -> fetch_add(me, BUSY, 1)
			:: else -> break
			fi
		:: else ->
#ifndef MUTANT_LATE_BELL
			load(me, APP, bell);
#endif
			fetch_add(me, BUSY, 16 - 1);
#ifndef MUTANT_SLEEP_CHECK
#ifndef MUTANT_SLEEP_CONDITION
			load(me, CONDITION(me), met);
#endif
			if
			:: !met -> look_pending(me, any)
			:: else
			fi;
#endif
#ifdef MUTANT_LATE_BELL
			load(me, APP, bell);
#endif
			if
			:: !met && !any -> futex_wait(me, APP, bell)
			:: else
			fi;
			d_step {
				sb[me].n == 0;
				fetch_add(me, BUSY, 1 - 16);
				any = false;
				met = false;
				bell = 0
			}
		fi
	od;
	left++
}

proctype service() {
	byte s, w, head, word, bell;
	bool got, any;

	do
	:: poll(SERVICE);
		if
		:: !any ->
			load(SERVICE, BELL, bell);
			store(SERVICE, SERVICE_ASLEEP, 1);
#ifndef NO_SERVICE_FENCE
			fence(SERVICE);
#endif
#ifndef MUTANT_SERVICE_CHECK
			look_pending(SERVICE, any);
#endif
			if
			:: !any -> futex_wait(SERVICE, BELL, bell)
			:: else
			fi;
			d_step {
				sb[SERVICE].n < SB_MAX;
				store(SERVICE, SERVICE_ASLEEP, 0);
				bell = 0
			}
		:: else
		fi
	od
}

proctype sender(byte me) {
	byte w, word, sent;

	do
	:: sent < MESSAGES ->
		sent++;
		store(SENDER(me), TAIL(me), sent);
#ifndef MUTANT_SEND_FENCE
		fence(SENDER(me));
#endif
		load(SENDER(me), BUSY, word);
		if
		:: AWAKE(word) > 0
		:: AWAKE(word) == 0 && ASLEEP(word) > 0 ->
#ifndef MUTANT_NO_BELL
			fetch_add(SENDER(me), APP, 1);
#endif
			futex_wake_app(SENDER(me))
		:: else ->
			fetch_add(SENDER(me), BELL, 1);
			load(SENDER(me), SERVICE_ASLEEP, word);
			if
			:: word > 0 -> futex_wake_service(SENDER(me))
			:: else
			fi
		fi;
		word = 0
	:: else -> break
	od
}

#define ALL_LEFT (left == WAITERS)
#if SENDERS == 1
#define ALL_HANDLED (mem[HEAD(0)] == MESSAGES)
#else
#define ALL_HANDLED (mem[HEAD(0)] == MESSAGES && mem[HEAD(1)] == MESSAGES)
#endif

#ifdef LIVENESS
ltl served { <> (ALL_LEFT && ALL_HANDLED) }
#else
/* Runs when no other process can: then everything must be done. */
active proctype at_rest() {
	timeout -> assert(ALL_LEFT && ALL_HANDLED)
}
#endif

init {
	byte i = 0;

	atomic {
		do
		:: i < WAITERS ->
			run waiter(i);
			i++
		:: else -> break
		od;
		run service();
		i = 0;
		do
		:: i < SENDERS ->
			run sender(i);
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < PROCS ->
			run flusher(i);
			i++
		:: else -> break
		od
	}
}
