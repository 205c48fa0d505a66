divert(-1)
# PARMACS (ANL) macros over roam: the macro file of SPLASH-2 programs of all generations.
#
#	m4 -Ulen -Uindex parmacs.m4 program.C > program.c
#	cc program.c $(pkg-config --cflags --libs roam) -lm
#
# Both forms of CREATE (one argument: makes one process; two: makes P - 1 and calls the function
# itself), BARINIT and WAIT_FOR_END are accepted.  Heap sizes (MAIN_INITENV) are ignored.
#
# What is here, in groups (those without a note are in the manual page roam-parmacs(7)):
# - environment: MAIN_ENV, EXTERN_ENV, ENV, MAIN_INITENV, MAIN_END, ROAM_NEEDS, ROAM_SHARED
# - processes: CREATE, WAIT_FOR_END, GET_PID
# - memory: G_MALLOC, NU_MALLOC, G_MALLOC_F, NU_MALLOC_F, G_FREE, NU_FREE.  The second argument, the
#   home, is the number of a process (as roam_node; greater ones wrap around): the block's pages live
#   at its node.  Without it, or below 0, each page lives where it is touched first.  Blocks smaller
#   than a page have no home of their own.  SET_HOME(address, home) gives a home to the page at an
#   address, SET_HOME(address, bytes, home) to a range; only for pages that no process has used yet.
#   GET_HOME gives the number to pass for this process's own node.
# - locks: LOCK..., ALOCK..., AUNLOCK, AGETL; NLOCK...: a lock that its holder may lock again
# - BARRIER..., CONDVAR..., PAUSE... (latched flags), EVENT... (the same under the names EVENTDEC,
#   EVENTINIT, EVENTSET, EVENTWAIT, EVENTCLEAR), RELEASE_FENCE and the like
# - subscripts: GSDEC, GSINIT, GETSUB, also with NU_
# - monitors: MONDEC(m) declares one, MONINIT(m, queues), MENTER(m), MEXIT(m); DELAY(m, queue) leaves
#   the monitor and waits in the queue; CONTINUE(m, queue) leaves it and hands it to the process that
#   waits there longest, if any, before all that want to enter
# - time and marks: CLOCK; SPLASH3_ROI_BEGIN and _END delimit what ROAM_STATS counts
# - without effect, as in all macro files of the suite: EVENT, PAUSE, BARINCLUDE, BAREXCLUDE, NEWPROC,
#   ADEC, AINIT, PROBEND, ST_LOG, AUG_DELAY, AUG_SET_LOLIMIT, AUG_SET_HILIMIT, and, also as bare words,
#   AUG_ON, AUG_OFF, TRACE_ON, TRACE_OFF, REF_TRACE_ON, ... DYN_SCHED_OFF
#
# Rules that every macro here keeps, because existing programs depend on them:
# - A macro expands only before "(" (MAIN_ENV, EXTERN_ENV, MAIN_END, the ROI marks, AUG_ON, TRACE_ON
#   and their like excepted): its bare name in a string or a comment is left alone.  No number of
#   arguments is an error.  No expansion contains a comment.
# - Statement macros expand to a brace block: usable with and without ";" and as the body of an if.
# - G_MALLOC and NU_MALLOC end in their own ";", because programs omit it.
# - A synchronisation object is one unsigned long, named by its address (subscripts, monitors and
#   NLOCKs are structures with data, and lie in shared memory); declarations need no header.
# - A call that fails ends the program with one line, "file:line: LOCK: text".
# - PAGE_SIZE is exactly the token 4096, for programs that align to it and have no number of their
#   own; those that define it later, as 4096, redefine nothing.
# Quotes are changed to <| |>, so that m4 ignores apostrophes and backquotes in C.
changequote(<|, |>)

# roam_macro(NAME, body): NAME(...) becomes the body; NAME without "(" stays.
define(<|roam_macro|>, <|roam_macro_as(<|$1|>, <|$2|>, <|$|>)|>)
define(<|roam_macro_as|>, <|define(<|roam_$1|>, <|$2|>)define(<|$1|>,
<|ifelse($3#, 0, <|<|$1|>|>, <|roam_$1($3@)|>)|>)|>)

# roam_ignored(NAME): NAME(...) does nothing.  roam_mark(NAME): NAME, also without "(", does nothing.
define(<|roam_ignored|>, <|roam_macro(<|$1|>, <|{ }|>)|>)
define(<|roam_mark|>, <|roam_mark_as(<|$1|>, <|$|>)|>)
define(<|roam_mark_as|>, <|define(<|$1|>, <|ifelse($2#, 0, <||>, <|{ }|>)|>)|>)

# roam_must(call, NAME): a statement that checks the call's enum roam_err.
# roam_call(NAME, call): NAME(...) becomes that statement.
define(<|roam_must|>, <|{ roam_parmacs_must($1, "$2", __FILE__, __LINE__); }|>)
define(<|roam_call|>, <|roam_macro(<|$1|>, <|roam_must(<|$2|>, <|$1|>)|>)|>)

# ------------------------------------------------------------------------------------- environment
# Parameters and variables end in "_": programs have globals and macros of every short name.

define(<|roam_env|>, <|
#ifndef ROAM_PARMACS_ENV
#define ROAM_PARMACS_ENV
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>
#include <roam/roam.h>

#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif

static __inline__ __attribute__((unused)) void roam_parmacs_must(enum roam_err err_,
    const char *what_, const char *file_, int line_)
{
	if (err_ == ROAM_OK)
		return;
	fprintf(stderr, "%s:%d: %s: %s\n", file_, line_, what_, roam_strerror(err_));
	exit(1);
}

static __inline__ __attribute__((unused)) void *roam_parmacs_alloc(size_t bytes_, long home_,
    const char *what_, const char *file_, int line_)
{
	enum roam_place place_ = home_ < 0 ? ROAM_PLACE_FIRST_TOUCH : ROAM_PLACE_NODE;
	const char *base_ = file_, *at_;
	char name_[64];
	void *block_;

	for (at_ = file_; *at_ != 0; at_++)
		base_ = *at_ == '/' ? at_ + 1 : base_;
	sprintf(name_, "%.48s:%d", base_, line_);
	if (bytes_ == 0)
		bytes_ = 1;
	home_ = home_ < 0 ? 0 : home_;
	block_ = roam_alloc_placed(bytes_, place_, (unsigned)home_, name_);
	if (block_ == NULL && roam_errno() == ROAM_EINVAL)
		block_ = roam_alloc_placed(bytes_, place_, (unsigned)home_ % roam_nodes(), name_);
	if (block_ == NULL)
		roam_parmacs_must(roam_errno(), what_, file_, line_);
	return block_;
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_home(const void *at_,
    size_t bytes_, long home_)
{
	enum roam_err err_;

	if (home_ < 0)
		return ROAM_OK;
	err_ = roam_home(at_, bytes_, (unsigned)home_);
	if (err_ == ROAM_EINVAL)
		err_ = roam_home(at_, bytes_, (unsigned)home_ % roam_nodes());
	return err_;
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_locks_init(
    const unsigned long *locks_, unsigned long count_)
{
	enum roam_err err_ = ROAM_OK;
	unsigned long i_;

	for (i_ = 0; i_ < count_ && err_ == ROAM_OK; i_++)
		err_ = roam_lock_init(&locks_[i_]);
	return err_;
}

static __inline__ __attribute__((unused)) void roam_parmacs_start(void)
{
	if (roam_start_main() != ROAM_OK || roam_threads_fixed() != ROAM_OK)
		exit(1);
}

struct roam_parmacs_nlock {
	unsigned long lock;
	unsigned long owner;
	long depth;
};

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_nlock_init(void *nlock_)
{
	struct roam_parmacs_nlock *n_ = (struct roam_parmacs_nlock *)nlock_;

	n_->owner = 0;
	n_->depth = 0;
	return roam_lock_init(&n_->lock);
}

static __inline__ __attribute__((unused)) unsigned long roam_parmacs_me(void)
{
	return (unsigned long)pthread_self() ^ ((unsigned long)roam_node() + 1) << 56;
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_nlock(void *nlock_)
{
	struct roam_parmacs_nlock *n_ = (struct roam_parmacs_nlock *)nlock_;
	unsigned long me_ = roam_parmacs_me();
	enum roam_err err_ = ROAM_OK;

	if (__atomic_load_n(&n_->owner, __ATOMIC_RELAXED) != me_)
		err_ = roam_lock(&n_->lock);
	if (err_ != ROAM_OK)
		return err_;
	__atomic_store_n(&n_->owner, me_, __ATOMIC_RELAXED);
	n_->depth++;
	return ROAM_OK;
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_nunlock(void *nlock_)
{
	struct roam_parmacs_nlock *n_ = (struct roam_parmacs_nlock *)nlock_;

	if (__atomic_load_n(&n_->owner, __ATOMIC_RELAXED) != roam_parmacs_me())
		return ROAM_ENOTHELD;
	if (--n_->depth > 0)
		return ROAM_OK;
	__atomic_store_n(&n_->owner, 0, __ATOMIC_RELAXED);
	return roam_unlock(&n_->lock);
}

struct roam_parmacs_queue {
	unsigned long woken;
	long last;
	long first;
};

struct roam_parmacs_mon {
	unsigned long lock;
	unsigned long entry;
	long waiting;
	long handed;
	long queues;
	struct roam_parmacs_queue *queue;
};

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_mon_init(void *monitor_,
    long queues_)
{
	struct roam_parmacs_mon *m_ = (struct roam_parmacs_mon *)monitor_;

	m_->waiting = m_->handed = 0;
	m_->queues = queues_ > 0 ? queues_ : 1;
	m_->queue = (struct roam_parmacs_queue *)roam_alloc((size_t)m_->queues *
	    sizeof(*m_->queue));
	return m_->queue != NULL ? roam_lock_init(&m_->lock) : roam_errno();
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_mon_enter(void *monitor_)
{
	struct roam_parmacs_mon *m_ = (struct roam_parmacs_mon *)monitor_;
	enum roam_err err_ = roam_lock(&m_->lock);

	while (err_ == ROAM_OK && m_->handed) {
		m_->waiting++;
		err_ = roam_cond_wait(&m_->entry, &m_->lock);
		m_->waiting--;
	}
	return err_;
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_mon_exit(void *monitor_)
{
	return roam_unlock(&((struct roam_parmacs_mon *)monitor_)->lock);
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_mon_delay(void *monitor_,
    long queue_)
{
	struct roam_parmacs_mon *m_ = (struct roam_parmacs_mon *)monitor_;
	struct roam_parmacs_queue *q_;
	enum roam_err err_ = ROAM_OK;
	long turn_;

	if (queue_ < 0 || queue_ >= m_->queues)
		return ROAM_EINVAL;
	q_ = &m_->queue[queue_];
	turn_ = q_->last++;
	while (err_ == ROAM_OK && q_->first <= turn_)
		err_ = roam_cond_wait(&q_->woken, &m_->lock);
	m_->handed = 0;
	if (err_ == ROAM_OK && m_->waiting > 0)
		err_ = roam_cond_broadcast(&m_->entry);
	return err_;
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_mon_continue(void *monitor_,
    long queue_)
{
	struct roam_parmacs_mon *m_ = (struct roam_parmacs_mon *)monitor_;
	enum roam_err err_ = ROAM_OK;

	if (queue_ < 0 || queue_ >= m_->queues)
		return ROAM_EINVAL;
	if (m_->queue[queue_].first < m_->queue[queue_].last) {
		m_->queue[queue_].first++;
		m_->handed = 1;
		err_ = roam_cond_broadcast(&m_->queue[queue_].woken);
	}
	return err_ == ROAM_OK ? roam_unlock(&m_->lock) : err_;
}

struct roam_parmacs_gs {
	unsigned long lock;
	unsigned long barrier;
	long next;
	long left;
};

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_gs_init(void *subscripts_)
{
	struct roam_parmacs_gs *gs_ = (struct roam_parmacs_gs *)subscripts_;

	gs_->next = 0;
	gs_->left = 0;
	return roam_lock_init(&gs_->lock);
}

static __inline__ __attribute__((unused)) enum roam_err roam_parmacs_gs_get(void *subscripts_,
    long *subscript_p_, long last_, long procs_)
{
	struct roam_parmacs_gs *gs_ = (struct roam_parmacs_gs *)subscripts_;
	enum roam_err err_ = roam_lock(&gs_->lock);

	if (err_ != ROAM_OK)
		return err_;
	*subscript_p_ = gs_->next <= last_ ? gs_->next++ : -1;
	if (*subscript_p_ < 0 && ++gs_->left == procs_)
		gs_->next = gs_->left = 0;
	err_ = roam_unlock(&gs_->lock);
	if (err_ != ROAM_OK || *subscript_p_ >= 0)
		return err_;
	return roam_barrier(&gs_->barrier, (unsigned)procs_);
}
#endif
|>)

define(<|MAIN_ENV|>, defn(<|roam_env|>))
define(<|EXTERN_ENV|>, defn(<|roam_env|>))
roam_macro(<|ENV|>, <||>)
roam_macro(<|MAIN_INITENV|>, <|{ roam_parmacs_start(); }|>)
# ROAM_NEEDS(model): the consistency that the program needs, SC, RC or ScC; before CREATE.
roam_call(<|ROAM_NEEDS|>, <|roam_needs(ROAM_MODEL_<||>translit(<|$1|>, <|c|>, <|C|>))|>)
define(<|MAIN_END|>, <|{ roam_must(<|roam_finish()|>, <|<|MAIN_END|>|>) exit(0); }|>)

# --------------------------------------------------------------------------------------- processes

roam_macro(<|CREATE|>, <|ifelse(<|$2|>, <||>,
<|roam_CREATE_ONE($1)|>, <|roam_CREATE_ALL($1, $2)|>)|>)
define(<|roam_CREATE_ALL|>,
<|roam_must(<|roam_create_all((void (*)(void))($1), (unsigned)($2))|>, <|CREATE|>)|>)
define(<|roam_CREATE_ONE|>, <|roam_must(<|roam_create((void (*)(void))($1))|>, <|CREATE|>)|>)
roam_call(<|WAIT_FOR_END|>, <|roam_wait_for_end()|>)
roam_macro(<|GET_PID|>, <|{ ($1) = (int)roam_node(); }|>)

# ------------------------------------------------------------------------------------------ memory

# roam_alloc(bytes, home, NAME): an expression.  Without a home: first touch.
define(<|roam_alloc|>, <|roam_parmacs_alloc((size_t)($1), dnl
ifelse(<|$2|>, <||>, <|-1L|>, <|(long)($2)|>), "$3", __FILE__, __LINE__)|>)
roam_macro(<|G_MALLOC|>, <|roam_alloc(<|$1|>, <|$2|>, <|G_MALLOC|>);|>)
roam_macro(<|NU_MALLOC|>, <|roam_alloc(<|$1|>, <|$2|>, <|NU_MALLOC|>);|>)
roam_macro(<|G_MALLOC_F|>, <|roam_alloc(<|$1|>, <|$2|>, <|G_MALLOC_F|>)|>)
roam_macro(<|NU_MALLOC_F|>, <|roam_alloc(<|$1|>, <|$2|>, <|NU_MALLOC_F|>)|>)
roam_call(<|G_FREE|>, <|roam_free((void *)($1))|>)
roam_call(<|NU_FREE|>, <|roam_free((void *)($1))|>)
roam_macro(<|SET_HOME|>, <|roam_must(<|roam_parmacs_home((const void *)($1), dnl
ifelse(<|$3|>, <||>, <|(size_t)1, (long)($2)|>, <|(size_t)($2), (long)($3)|>))|>, <|SET_HOME|>)|>)
roam_macro(<|GET_HOME|>, <|{ ($1) = roam_node(); }|>)

# ------------------------------------------------------------------------------------------- locks

roam_macro(<|LOCKDEC|>, <|unsigned long $1;|>)
roam_call(<|LOCKINIT|>, <|roam_lock_init(&($1))|>)
roam_call(<|LOCK|>, <|roam_lock(&($1))|>)
roam_call(<|UNLOCK|>, <|roam_unlock(&($1))|>)

roam_macro(<|ALOCKDEC|>, <|unsigned long $1[$2];|>)
roam_call(<|ALOCKINIT|>, <|roam_parmacs_locks_init(($1), (unsigned long)($2))|>)
roam_call(<|ALOCK|>, <|roam_lock(&($1)[$2])|>)
roam_call(<|AULOCK|>, <|roam_unlock(&($1)[$2])|>)
roam_call(<|AUNLOCK|>, <|roam_unlock(&($1)[$2])|>)
roam_macro(<|AGETL|>, <|(($1)[$2])|>)

roam_macro(<|NLOCKDEC|>, <|struct { unsigned long lock, owner; long depth; } $1;|>)
roam_call(<|NLOCKINIT|>, <|roam_parmacs_nlock_init(&($1))|>)
roam_call(<|NLOCK|>, <|roam_parmacs_nlock(&($1))|>)
roam_call(<|NUNLOCK|>, <|roam_parmacs_nunlock(&($1))|>)

# ----------------------------------------------------------- barriers, condition variables, pauses

roam_macro(<|BARDEC|>, <|unsigned long $1;|>)
roam_macro(<|BARINIT|>, <|{ (void)&($1); }|>)
roam_call(<|BARRIER|>, <|roam_barrier(&($1), (unsigned)($2))|>)

roam_macro(<|CONDVARDEC|>, <|unsigned long $1;|>)
roam_call(<|CONDVARINIT|>, <|roam_cond_init(&($1))|>)
roam_call(<|CONDVARWAIT|>, <|roam_cond_wait(&($1), &($2))|>)
roam_call(<|CONDVARSIGNAL|>, <|roam_cond_signal(&($1))|>)
roam_call(<|CONDVARBCAST|>, <|roam_cond_broadcast(&($1))|>)

roam_macro(<|PAUSEDEC|>, <|unsigned long $1;|>)
roam_call(<|PAUSEINIT|>, <|roam_flag_clear(&($1))|>)
roam_call(<|SETPAUSE|>, <|roam_flag_set(&($1))|>)
roam_call(<|WAITPAUSE|>, <|roam_flag_wait(&($1))|>)
roam_call(<|CLEARPAUSE|>, <|roam_flag_clear(&($1))|>)

roam_macro(<|EVENTDEC|>, <|unsigned long $1;|>)
roam_call(<|EVENTINIT|>, <|roam_flag_clear(&($1))|>)
roam_call(<|EVENTSET|>, <|roam_flag_set(&($1))|>)
roam_call(<|EVENTWAIT|>, <|roam_flag_wait(&($1))|>)
roam_call(<|EVENTCLEAR|>, <|roam_flag_clear(&($1))|>)

# Self-scheduled subscripts 0 .. max; -1 once they are used up and all processes know it.
roam_macro(<|GSDEC|>, <|struct { unsigned long lock, barrier; long next, left; } $1;|>)
roam_call(<|GSINIT|>, <|roam_parmacs_gs_init(&($1))|>)
roam_macro(<|GETSUB|>, <|{ long roam_parmacs_sub; dnl
roam_must(<|roam_parmacs_gs_get(&($1), &roam_parmacs_sub, (long)($3), (long)($4))|>, <|GETSUB|>) dnl
($2) = roam_parmacs_sub; }|>)
roam_macro(<|NU_GSDEC|>, <|roam_GSDEC($@)|>)
roam_macro(<|NU_GSINIT|>, <|roam_GSINIT($@)|>)
roam_macro(<|NU_GETSUB|>, <|roam_GETSUB($@)|>)

roam_macro(<|MONDEC|>, <|struct { unsigned long lock, entry; long waiting, handed, queues; dnl
void *queue; } $1;|>)
roam_call(<|MONINIT|>, <|roam_parmacs_mon_init(&($1), (long)ifelse(<|$2|>, <||>, 1, <|($2)|>))|>)
roam_call(<|MENTER|>, <|roam_parmacs_mon_enter(&($1))|>)
roam_call(<|MEXIT|>, <|roam_parmacs_mon_exit(&($1))|>)
roam_call(<|DELAY|>, <|roam_parmacs_mon_delay(&($1), (long)($2))|>)
roam_call(<|CONTINUE|>, <|roam_parmacs_mon_continue(&($1), (long)($2))|>)

# Locks, pauses and barriers order everything; a fence orders only what this compiler and CPU do.
roam_macro(<|RELEASE_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_RELEASE); }|>)
roam_macro(<|ACQUIRE_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_ACQUIRE); }|>)
roam_macro(<|FULL_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_SEQ_CST); }|>)

# ---------------------------------------------------------------------------------- time and marks

roam_macro(<|CLOCK|>, <|{ ($1) = roam_clock_us(); }|>)
define(<|SPLASH3_ROI_BEGIN|>, <|{ roam_roi_begin(); }|>)
define(<|SPLASH3_ROI_END|>, <|{ roam_roi_end(); }|>)

# Marks for simulators of that time.
roam_ignored(<|EVENT|>)
roam_ignored(<|PAUSE|>)
roam_ignored(<|BARINCLUDE|>)
roam_ignored(<|BAREXCLUDE|>)
roam_ignored(<|NEWPROC|>)
roam_macro(<|ADEC|>, <|long $1;|>)
roam_ignored(<|AINIT|>)
roam_ignored(<|PROBEND|>)
roam_ignored(<|ST_LOG|>)
roam_ignored(<|AUG_DELAY|>)
roam_ignored(<|AUG_SET_LOLIMIT|>)
roam_ignored(<|AUG_SET_HILIMIT|>)
roam_mark(<|AUG_ON|>)
roam_mark(<|AUG_OFF|>)
roam_mark(<|TRACE_ON|>)
roam_mark(<|TRACE_OFF|>)
roam_mark(<|REF_TRACE_ON|>)
roam_mark(<|REF_TRACE_OFF|>)
roam_mark(<|DYN_TRACE_ON|>)
roam_mark(<|DYN_TRACE_OFF|>)
roam_mark(<|DYN_REF_TRACE_ON|>)
roam_mark(<|DYN_REF_TRACE_OFF|>)
roam_mark(<|DYN_SIM_ON|>)
roam_mark(<|DYN_SIM_OFF|>)
roam_mark(<|DYN_SCHED_ON|>)
roam_mark(<|DYN_SCHED_OFF|>)

# Names that m4 defines and C programs use.
ifdef(<|len|>, <|undefine(<|len|>)|>)
ifdef(<|index|>, <|undefine(<|index|>)|>)
divert(0)dnl
