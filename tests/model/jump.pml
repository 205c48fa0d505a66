/*
 * jump: one page whose home moves (rules 7.1, 7.2), with two variables, each guarded by a lock of
 * its own, so that nodes write the page at the same time and locks order what they write.
 *
 * Each node: the page's bytes, a twin while a copy is dirty, `have` and `need` as in hlrc.pml; the
 * epoch of the place where it believes the home to be, and that place; at the home, the version,
 * and the nodes that may have a copy and have sent nothing since.  Messages of one sender to one receiver keep
 * their order; answers travel by themselves.
 *
 *	fault:	  ask at the place known; the home gives itself away if no other node than the asker
 *		  has a copy, and no thread works on the page there, and the request was not passed on
 *		  HOPS times; else a copy.  A node that gave the home away keeps a copy, and owes a
 *		  notice of what it wrote
 *	release:  at the home the version counts up; else the diff goes to the place known, and the
 *		  home answers with the version; or the writer asks first for the home, or stores
 *		  the diff where the home is, which it keeps there meanwhile.  A copy without writes
 *		  owes the version that counted them when the home was given away
 *	home:	  goes to a node that sends a diff, or asks, if its copy has all that is here
 *	handler:  a node that is not home passes on to a place of a later epoch than the request's; a
 *		  node that knows of none will get the page, and keeps the request until it is here
 *
 * Shown: at most one home, and none only while the page travels; epochs grow; a holder of a lock
 * reads what was written last under it; no diff is lost; all get through.
 *
 * Build switches: NODES, OPS of the last node, OTHERS of the others (as many), HOPS, and one of
 *	MUTANT_TWO_HOMES	a node that gives the home away remains home
 *	MUTANT_NOT_OWED		no version counts what the old home wrote
 *	MUTANT_NOT_KEPT		a request that comes before the page is lost
 *	MUTANT_DIFF_DROPPED	a stale home takes the diff for itself
 *	MUTANT_EARLY_NOTICE	the lock is free before the diff is acknowledged
 *	MUTANT_VERSION_ANEW	the version begins anew at the new home
 *	MUTANT_STALE_WRITER	a writer becomes home though its copy lacks a diff
 *	MUTANT_HOME_DIRTY	a writer becomes home without what the home has written since
 *	MUTANT_NOT_PINNED	the home moves while a diff is stored there
 * With ASKS, a writer may ask first; with PUTS, it may store.
 */
#ifndef NODES
#define NODES 3
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef OTHERS
#define OTHERS OPS
#endif
#ifndef HOPS
#define HOPS 1
#endif
#define BIT(n) (1 << (n))

mtype = { WANT, DIFF, ASK };

typedef node {
	byte byte_of[2], twin[2];
	byte have, need;   /* at the home `have` is the version */
	byte place, epoch; /* at the home itself its own */
	byte copies;
	byte owed; /* a version */
	bit home, valid, dirty, pending, pinned;
};
node nodes[NODES];
byte version[2], epoch_of[2], place_of[2]; /* what a lock tells: of its last writes */
bit held[2];
byte count[2], finished;

/*
 * What is asked, which node asks, the epoch it goes by, hops or which bytes a diff has, both bytes,
 * the version of the copy.
 */
chan to[NODES * NODES] = [2] of { mtype, byte, byte, byte, byte, byte, byte };
chan kept[NODES] = [NODES] of { mtype, byte, byte, byte, byte, byte, byte };
chan page[NODES] = [1] of { bit, byte, byte, byte, byte, byte }; /* moved, epoch, place, version, bytes */
chan acks[NODES] = [1] of { bit, byte, byte, byte };             /* moved, version, epoch, place */

#define ME nodes[me]

inline hear(where, when)
{
	if
	:: when > ME.epoch && !ME.home -> ME.epoch = when; ME.place = where
	:: else
	fi
}

inline fault()
{
	atomic { !ME.pending -> ME.pending = 1 }
	do
	:: ME.valid || ME.home -> break
	:: atomic {
		!ME.valid && !ME.home ->
		to[me * NODES + ME.place] ! WANT(me, ME.epoch, 0, 0, 0, 0)
	   }
		atomic {
			page[me] ? moved, e, p, v, x, y;
			ME.byte_of[0] = x;
			ME.byte_of[1] = y;
			if
			:: moved ->
				assert(v >= ME.need);
				ME.home = 1;
				ME.have = v;
				ME.epoch = e;
				ME.place = me;
				ME.copies = 0
			:: else ->
				hear(p, e);
				ME.have = v;
				ME.valid = (v >= ME.need)
			fi;
			moved = 0; e = 0; p = 0; v = 0; x = 0; y = 0
		}
	od;
	ME.pending = 0
}

/* A writer's page is its own from now on; what it wrote counts when it is told. */
inline become()
{
	ME.home = 1;
	ME.valid = 0;
	ME.have = v;
	ME.epoch = e;
	ME.place = me;
	ME.copies = 0
}

/* The diff is acknowledged; the home may have come with that. */
inline acknowledged()
{
	atomic {
		acks[me] ? moved, v, e, p;
		if
		:: moved -> become()
		:: else ->
			hear(p, e);
			ME.have = (v == ME.have + 1 -> v : ME.have)
		fi;
		moved = 0
	}
}

/* The version that makes the writes of the open interval known, and where. */
inline flush()
{
	atomic { !ME.pending -> ME.pending = 1 }
#ifdef ASKS
	if
	:: atomic {
		!ME.home && ME.dirty ->
		to[me * NODES + ME.place] ! ASK(me, ME.epoch, 0, 0, 0, ME.have)
	   }
		atomic {
			acks[me] ? moved, v, e, p;
			if
			:: moved -> become()
			:: else -> hear(p, e)
			fi;
			moved = 0; v = 0; e = 0; p = 0
		}
	:: true
	fi;
#endif
	if
	:: atomic { ME.home -> ME.have++; v = ME.have; e = ME.epoch; p = me }
	:: atomic { !ME.home && !ME.dirty -> v = ME.owed; e = ME.epoch; p = ME.place }
	:: atomic {
		!ME.home && ME.dirty ->
		to[me * NODES + ME.place] ! DIFF(me, ME.epoch,
			(ME.byte_of[0] != ME.twin[0] -> 1 : 0) +
			(ME.byte_of[1] != ME.twin[1] -> 2 : 0), ME.byte_of[0], ME.byte_of[1],
			ME.have)
	   }
#ifdef MUTANT_EARLY_NOTICE
		held[l] = 0;
#endif
		acknowledged()
#ifdef PUTS
	:: atomic {
		!ME.home && ME.dirty && nodes[ME.place].home && !nodes[ME.place].pinned ->
#ifndef MUTANT_NOT_PINNED
		nodes[ME.place].pinned = 1
#endif
	   }
		atomic {
			if
			:: ME.byte_of[0] != ME.twin[0] -> nodes[ME.place].byte_of[0] = ME.byte_of[0]
			:: else
			fi;
			if
			:: ME.byte_of[1] != ME.twin[1] -> nodes[ME.place].byte_of[1] = ME.byte_of[1]
			:: else
			fi
		}
		atomic {
			nodes[ME.place].have++;
			v = nodes[ME.place].have;
			e = ME.epoch;
			p = ME.place;
			nodes[ME.place].pinned = 0;
			ME.have = (v == ME.have + 1 -> v : ME.have)
		}
#endif
	fi;
	atomic {
		version[l] = v;
		epoch_of[l] = e;
		place_of[l] = p;
		v = 0; e = 0; p = 0;
		ME.dirty = 0;
		ME.owed = 0;
		ME.pending = 0
	}
}

inline acquire()
{
	atomic {
		!held[l] ->
		held[l] = 1;
		ME.need = (ME.need < version[l] -> version[l] : ME.need);
		hear(place_of[l], epoch_of[l]);
		ME.valid = (ME.have < ME.need -> 0 : ME.valid)
	}
}

proctype thread(byte me)
{
	byte op, l, v, e, p, x, y;
	bit moved, writes;

	do
	:: op < (me == NODES - 1 -> OPS : OTHERS) ->
		if
		:: l = 0; writes = 0
		:: l = 0; writes = 1
		:: l = 1; writes = 0
		:: l = 1; writes = 1
		fi;
		acquire();
		do
		:: fault();
			atomic {
				if
				:: ME.valid || ME.home ->
					assert(ME.byte_of[l] == count[l]);
					if
					:: writes ->
						if
						:: !ME.home && !ME.dirty ->
							ME.twin[0] = ME.byte_of[0];
							ME.twin[1] = ME.byte_of[1]
						:: else
						fi;
						ME.dirty = 1;
						count[l]++;
						ME.byte_of[l] = count[l]
					:: else
					fi;
					break
				:: else
				fi
			}
		od;
		if
		:: ME.dirty || ME.owed -> flush()
		:: else
		fi;
		held[l] = 0;
		l = 0;
		writes = 0;
		op++
	:: else -> break
	od;
	finished++
}

/* The home gives a page away, with its bytes or to a node that has them. */
inline give(bytes)
{
	if
	:: ME.dirty ->
		ME.twin[0] = ME.byte_of[0];
		ME.twin[1] = ME.byte_of[1];
		ME.dirty = 0;
#ifndef MUTANT_NOT_OWED
		ME.have++;
#endif
		ME.owed = ME.have
	:: else
	fi;
	if
	:: bytes ->
		page[who] ! 1, ME.epoch + 1, who,
#ifdef MUTANT_VERSION_ANEW
			1,
#else
			ME.have,
#endif
			ME.byte_of[0], ME.byte_of[1]
	:: else -> acks[who] ! 1, ME.have, ME.epoch + 1, who
	fi;
#ifndef MUTANT_TWO_HOMES
	ME.home = 0;
#endif
	ME.valid = 1;
	ME.epoch++;
	ME.place = who
}

/* Whether the writer's copy of that version has all that is here, and may be home of it. */
#ifdef MUTANT_STALE_WRITER
#define IS_ALL(made) (!ME.pending && !ME.dirty && !ME.pinned && (ME.copies & ~BIT(who)) == 0)
#elif defined(MUTANT_HOME_DIRTY)
#define IS_ALL(made) ((made) == ME.have && !ME.pending && !ME.pinned && (ME.copies & ~BIT(who)) == 0)
#else
#define IS_ALL(made) \
	((made) == ME.have && !ME.pending && !ME.dirty && !ME.pinned && (ME.copies & ~BIT(who)) == 0)
#endif

inline serve()
{
	if
	:: what == WANT ->
		if
		:: hops < HOPS && !ME.pending && !ME.pinned && (ME.copies & ~BIT(who)) == 0 -> give(1)
		:: else ->
			ME.copies = ME.copies | BIT(who);
			page[who] ! 0, ME.epoch, me, ME.have, ME.byte_of[0], ME.byte_of[1]
		fi
	:: what == DIFF ->
		ME.copies = ME.copies & ~BIT(who);
		if
		:: (hops & 1) != 0 -> ME.byte_of[0] = x
		:: else
		fi;
		if
		:: (hops & 2) != 0 -> ME.byte_of[1] = y
		:: else
		fi;
		ME.have++;
		if
		:: IS_ALL(made + 1) -> give(0)
		:: else -> acks[who] ! 0, ME.have, ME.epoch, me
		fi
	:: what == ASK ->
		if
		:: IS_ALL(made) -> give(0)
		:: else -> acks[who] ! 0, 0, ME.epoch, me
		fi
	fi
}

inline handle()
{
	if
	:: ME.home -> serve()
#ifdef MUTANT_DIFF_DROPPED
	:: !ME.home && what == DIFF -> serve()
	:: !ME.home && what == WANT && ME.epoch > when ->
#else
	:: !ME.home && ME.epoch > when ->
#endif
		to[me * NODES + ME.place] ! what(who, ME.epoch,
			(what == WANT -> hops + 1 : hops), x, y, made)
#ifdef MUTANT_NOT_KEPT
	:: !ME.home && ME.epoch <= when
#else
	:: !ME.home && ME.epoch <= when ->
		assert(ME.pending);
		kept[me] ! what(who, when, hops, x, y, made)
#endif
	fi;
	what = 0; who = 0; when = 0; hops = 0; x = 0; y = 0; made = 0
}

#define ARRIVES(from) \
	atomic { to[from * NODES + me] ? what(who, when, hops, x, y, made); handle() }

proctype handler(byte me)
{
	byte who, when, hops, x, y, made;
	mtype what;

end:	do
	:: ARRIVES(0)
	:: ARRIVES(1)
#if NODES > 2
	:: ARRIVES(2)
#endif
	:: atomic {
		!ME.pending && nempty(kept[me]) ->
		kept[me] ? what(who, when, hops, x, y, made);
		handle()
	   }
	od
}

/* Never more than one home; none only while it travels to a node that waits for it. */
active proctype homes()
{
end:	do
	:: d_step {
		nodes[0].home + nodes[1].home +
#if NODES > 2
			nodes[2].home +
#endif
			0 > 1 -> assert(0)
	   }
	od
}

/* No process can move: then all are through, one is home, and nothing was lost. */
active proctype stuck()
{
	byte i, found;

end:	timeout ->
	assert(finished == NODES);
	for (i : 0 .. NODES - 1) {
		if
		:: nodes[i].home ->
			found++;
			assert(nodes[i].byte_of[0] == count[0] && nodes[i].byte_of[1] == count[1])
		:: else
		fi
	}
	assert(found == 1)
}

init
{
	byte i;

	atomic {
		nodes[0].home = 1;
		nodes[0].have = 1;
		nodes[0].epoch = 1;
		for (i : 0 .. NODES - 1) {
			run handler(i);
			run thread(i)
		}
	}
}
