/*
 * plurix: transactions of protocols/plurix.c and src/sync/tx.c, tx_commit.c, tx_token.c on two pages, whose
 * values are always written together; rules 8.3, 8.6 to 8.10 and 8.15.
 *
 * Each node: a thread that runs transactions, a handler, and for each page: access, bytes, twin,
 * whether a commit works on it, and at the owner the copyset.  How a request finds the owner is
 * ivy.pml's matter: here it is there at once, and waits while the owner commits the page.  Every
 * other node begins with the other page.
 *
 *	read:	  fetch a copy: the owner's bytes without open writes, which travel; an invalidation
 *		  waits for a copy on its way
 *	write:	  a first write makes a twin; no node hears of it
 *	commit:	  wait for the token; hold the pages; take each from its owner; have each copy
 *		  invalidated; after the last answer one step decides whether the transaction counts
 *	by pages: instead, without the token: hold a page, take it from its owner, then the next one,
 *		  while the transaction is not doomed; then have each copy invalidated.  The token that
 *		  a transaction takes which has lost often is left out: it stops all other commits
 *	loss:	  no access, the twin's bytes, the node's transaction is doomed; then the answer
 *	restart:  a fault asks when it begins and when it has ended; so does the end; what was
 *		  written is undone
 *	token:	  ask node 0, which sends the request on to the one that asked before; that node gives
 *		  the token away when its commit is over
 *
 * Shown: no attempt, doomed or not, sees the two values differ; no update is lost; one node commits
 * at a time; all get through; an attempt leaves nothing behind.
 *
 * Build switches: NODES, OPS of each node, BY_PAGES (ROAM_TX_COMMIT=pages), and one of
 *	MUTANT_SERVED_EARLY	pages are served before the last answer
 *	MUTANT_LOSS_UNSEEN	a loss does not doom
 *	MUTANT_GOES_ON		a fault does not ask when it has ended
 *	MUTANT_LENT_OPEN	a copy has open writes
 *	MUTANT_COPIES_KEPT	copies are not invalidated
 *	MUTANT_OVERTAKEN	an invalidation does not wait for a copy on its way
 *	MUTANT_TWO_COMMIT	the token is given away during a commit
 *	MUTANT_TOKEN_KEPT	the token is not given away after one
 *	MUTANT_AT_ONCE		BY_PAGES: all pages are held before the first is taken
 */
#ifndef NODES
#define NODES 3
#endif
#ifndef OPS
#define OPS 1
#endif
#define BIT(n) (1 << (n))
#define FIRST (me & 1)

mtype = { ASK, NEXT, GRANT, NONE, OPEN, DOOMED };

/* Access: 0 none, 1 read, 2 write. */
typedef page {
	byte value, old, access, copies;
	byte left; /* nodes that have not answered an invalidation */
	bit pending, twin, fetching
};
typedef node {
	page at[2];
	mtype state;
	byte next; /* the node that gets the token after this one, + 1 */
	bit here, busy, wanted, asked
};
node nodes[NODES];
byte owner[2], tail, commits, committing, done;

chan to[NODES] = [NODES + 1] of { mtype, byte }; /* about the token, of the node */

#define ME nodes[me]
#define HERE ME.at[q]
#define OWNER nodes[owner[q]].at[q]

/* ------------------------------------------------------------------------------------------ loss */

inline restore(n)
{
	if
	:: nodes[n].at[q].twin ->
		nodes[n].at[q].value = nodes[n].at[q].old;
		nodes[n].at[q].twin = 0;
		nodes[n].at[q].old = 0
	:: else
	fi
}

inline lose(n)
{
	if
	:: nodes[n].at[q].access > 0 ->
		nodes[n].at[q].access = 0;
#ifndef MUTANT_LOSS_UNSEEN
		nodes[n].state = (nodes[n].state == OPEN -> DOOMED : nodes[n].state);
#endif
		restore(n)
	:: else
	fi
}

/* --------------------------------------------------------------------------------------- faults */

#ifdef MUTANT_SERVED_EARLY
#define SERVES (!OWNER.pending || nodes[owner[q]].busy)
#else
#define SERVES (!OWNER.pending)
#endif
#ifdef MUTANT_LENT_OPEN
#define LENT OWNER.value
#else
#define LENT (OWNER.twin && !OWNER.pending -> OWNER.old : OWNER.value)
#endif

inline read_fault()
{
	if
	:: atomic { owner[q] == me -> HERE.access = 1 }
	:: atomic {
		owner[q] != me && SERVES ->
		OWNER.copies = OWNER.copies | BIT(me);
		got = LENT;
		HERE.fetching = 1
	   }
		atomic {
			HERE.value = got;
			got = 0;
			HERE.fetching = 0;
			HERE.access = 1
		}
	fi
}

/* --------------------------------------------------------------------------------------- commit */

inline take_token()
{
	atomic {
		ME.wanted = 1;
		if
		:: !ME.here && !ME.asked ->
			ME.asked = 1;
			to[0] ! ASK(me)
		:: else
		fi
	}
	atomic {
		ME.here || ME.state == DOOMED ->
		ME.wanted = 0;
		if
		:: ME.state == DOOMED -> pass()
		:: else -> ME.busy = 1
		fi
	}
}

inline pass()
{
	if
#ifdef MUTANT_TWO_COMMIT
	:: ME.here && !ME.wanted && ME.next != 0 ->
#else
	:: ME.here && !ME.busy && !ME.wanted && ME.next != 0 ->
#endif
		to[ME.next - 1] ! GRANT(0);
		ME.here = 0;
		ME.next = 0
	:: else
	fi
}

inline take_page()
{
	if
	:: atomic { owner[q] == me }
	:: atomic {
		owner[q] != me && SERVES ->
		i = owner[q];
		lose(i);
		HERE.copies = OWNER.copies & ~BIT(me);
		HERE.value = ((OWNER.copies & BIT(me)) != 0 -> HERE.value : OWNER.value);
		OWNER.copies = 0;
		owner[q] = me;
		i = 0
	   }
	fi
}

inline invalidate()
{
#ifndef MUTANT_COPIES_KEPT
	HERE.left = HERE.copies;
#endif
	HERE.copies = 0;
	q++
}

/* Becomes the owner of the pages one after the other, until it is doomed. */
inline lock_pages()
{
	q = 0;
	do
	:: q < 2 && ME.state == OPEN ->
		HERE.pending = 1;
		take_page();
		q++
	:: else -> break
	od;
	atomic {
		ME.at[0].pending = 1;
		ME.at[1].pending = 1;
		q = (ME.state == OPEN -> 0 : 2)
	}
}

inline validate()
{
#ifdef BY_PAGES
	lock_pages();
#else
	q = 0;
#endif
	do
	:: q < 2 ->
#ifndef BY_PAGES
		take_page();
#endif
		atomic { invalidate() }
	:: else -> break
	od;
	q = 0;
	(ME.at[0].left == 0 && ME.at[1].left == 0)
}

inline count()
{
	atomic {
		counts = (ME.state == OPEN);
		if
		:: counts ->
			ME.state = NONE;
			commits++
		:: else
		fi
	}
}

/* What was written counts, or is undone; the pages stay pending until all of it is over. */
inline end_attempt()
{
	atomic {
		q = 0;
		do
		:: q < 2 ->
			HERE.access = (HERE.access > 1 -> 1 : HERE.access);
			if
			:: counts -> HERE.twin = 0; HERE.old = 0
			:: else -> restore(me)
			fi;
			q++
		:: else -> break
		od;
		q = 0;
		ME.at[0].pending = 0;
		ME.at[1].pending = 0;
		ME.state = NONE;
		assert(!ME.at[0].twin && !ME.at[1].twin)
	}
}

#ifdef BY_PAGES
#define BEGINS ME.busy = 1
#ifdef MUTANT_AT_ONCE
#define HOLDS 1
#else
#define HOLDS 0
#endif
#else
#define BEGINS take_token()
#define HOLDS  1
#endif

inline commit()
{
	BEGINS;
	if
	:: ME.busy ->
		atomic {
			ME.at[0].pending = HOLDS;
			ME.at[1].pending = HOLDS;
#ifndef BY_PAGES
			committing++;
			assert(committing == 1)
#endif
		}
		validate();
		count();
#ifndef BY_PAGES
		committing--;
#endif
		end_attempt();
		atomic {
			ME.busy = 0;
#if !defined(MUTANT_TOKEN_KEPT) && !defined(BY_PAGES)
			pass()
#endif
		}
	:: else -> end_attempt()
	fi
}

proctype thread(byte me)
{
	byte op, q, i, got, seen[2];
	bit writes, counts;

	do
	:: op < OPS ->
		if
		:: writes = 0
		:: writes = 1
		fi;
again:		atomic {
			counts = 0;
			seen[0] = 0;
			seen[1] = 0;
			q = FIRST;
			assert(ME.at[0].access < 2 && ME.at[1].access < 2);
			ME.state = OPEN
		}
		do
		:: atomic {
			HERE.access > 0 ->
			seen[q] = HERE.value;
			if
			:: q == FIRST -> q = 1 - FIRST
			:: else -> break
			fi
		   }
		:: atomic { HERE.access == 0 && ME.state == DOOMED -> goto restart }
		:: HERE.access == 0 && ME.state != DOOMED ->
			read_fault();
#ifndef MUTANT_GOES_ON
			if
			:: ME.state == DOOMED -> goto restart
			:: else
			fi
#endif
		od;
		assert(seen[0] == seen[1]);
		if
		:: !writes ->
			atomic { ME.state = NONE; q = 0 } /* counts, doomed or not */
		:: else ->
			q = FIRST;
			do
			:: atomic {
				HERE.access == 2 ->
				HERE.value = seen[q] + 1;
				if
				:: q == FIRST -> q = 1 - FIRST
				:: else -> break
				fi
			   }
			:: atomic { HERE.access < 2 && ME.state == DOOMED -> goto restart }
			:: atomic {
				HERE.access == 1 && ME.state != DOOMED ->
				HERE.old = HERE.value;
				HERE.twin = 1;
				HERE.access = 2
			   }
#ifdef MUTANT_LOSS_UNSEEN
			:: HERE.access == 0 -> read_fault()
#endif
			od;
			commit();
			if
			:: !counts -> goto again
			:: else
			fi
		fi;
		counts = 0;
		seen[0] = 0;
		seen[1] = 0;
		op++
	:: else -> break
	od;
	writes = 0;
	done++;
	goto out;
restart:
	end_attempt();
	goto again;
out:	skip
}

/* -------------------------------------------------------------------------------------- handler */

inline follow()
{
	assert(ME.next == 0 && (ME.here || ME.asked));
	ME.next = who + 1;
	pass()
}

#ifdef MUTANT_OVERTAKEN
#define ANSWERS(n, p) ((nodes[n].at[p].left & BIT(me)) != 0)
#else
#define ANSWERS(n, p) ((nodes[n].at[p].left & BIT(me)) != 0 && !ME.at[p].fetching)
#endif

#define INVALIDATED(n, p)                                                        \
	atomic {                                                                 \
		ANSWERS(n, p) ->                                                 \
		q = p;                                                           \
		lose(me);                                                        \
		nodes[n].at[p].left = nodes[n].at[p].left & ~BIT(me);            \
		q = 0                                                            \
	}

proctype handler(byte me)
{
	byte q, who, last;
	mtype what;

end:	do
	:: INVALIDATED(0, 0)
	:: INVALIDATED(0, 1)
	:: INVALIDATED(1, 0)
	:: INVALIDATED(1, 1)
#if NODES > 2
	:: INVALIDATED(2, 0)
	:: INVALIDATED(2, 1)
#endif
	:: atomic {
		to[me] ? what(who) ->
		if
		:: what == ASK ->
			last = tail;
			tail = who;
			if
			:: last == me -> follow()
			:: else -> to[last] ! NEXT(who)
			fi
		:: what == NEXT -> follow()
		:: what == GRANT ->
			assert(!ME.here && ME.asked);
			ME.here = 1;
			ME.asked = 0;
			pass()
		fi;
		what = 0;
		who = 0;
		last = 0
	   }
	od
}

/* No process can move: then all are through, and no update is lost. */
active proctype stuck()
{
	byte q;

end:	timeout ->
	assert(done == NODES);
	for (q : 0 .. 1) {
		assert(OWNER.value == commits)
	}
}

init
{
	byte i;

	atomic {
#ifdef BY_PAGES
		owner[1] = 1;
#endif
		for (i : 0 .. NODES - 1) {
			nodes[i].state = NONE;
			nodes[i].here = (i == 0);
			run handler(i);
			run thread(i)
		}
	}
}
