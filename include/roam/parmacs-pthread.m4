divert(-1)
# The macros of parmacs.m4 natively on POSIX threads, to compare roam with.
#
#	m4 -Ulen -Uindex parmacs-pthread.m4 program.C > program.c
#	cc program.c -pthread -lm
#
# So that the comparison is fair, threads are pinned, in turn, to the CPUs that the program may use; blocks
# are malloc's, locks are mutexes; and threads that wait at a barrier or for a pause spin if there is a CPU
# for each thread, and otherwise yield at once.  The macros have the forms and keep the rules of parmacs.m4.
changequote(<|, |>)

# roam_macro(NAME, body): NAME(...) becomes the body; NAME without "(" stays.
define(<|roam_macro|>, <|roam_macro_as(<|$1|>, <|$2|>, <|$|>)|>)
define(<|roam_macro_as|>, <|define(<|roam_$1|>, <|$2|>)define(<|$1|>,
<|ifelse($3#, 0, <|<|$1|>|>, <|roam_$1($3@)|>)|>)|>)

# roam_ignored(NAME): NAME(...) does nothing.  roam_mark(NAME): nor does the bare word.
define(<|roam_ignored|>, <|roam_macro(<|$1|>, <|{ }|>)|>)
define(<|roam_mark|>, <|roam_mark_as(<|$1|>, <|$|>)|>)
define(<|roam_mark_as|>, <|define(<|$1|>, <|ifelse($2#, 0, <||>, <|{ }|>)|>)|>)

# roam_must(call, NAME): a statement that checks the call's errno value.
# roam_call(NAME, call): NAME(...) becomes that statement.
define(<|roam_must|>, <|{ parmacs_must($1, "$2", __FILE__, __LINE__); }|>)
define(<|roam_call|>, <|roam_macro(<|$1|>, <|roam_must(<|$2|>, <|$1|>)|>)|>)

# Storage of the objects: opaque, so that a declaration needs no header; sizes checked below.
define(<|roam_mutex|>, <|struct { long opaque[5]; }|>)
define(<|roam_cond|>, <|struct { long opaque[6]; }|>)
define(<|roam_turn|>, <|struct { unsigned count, turn; }|>)
define(<|roam_mutex_of|>, <|((pthread_mutex_t *)(void *)&($1))|>)
define(<|roam_cond_of|>, <|((pthread_cond_t *)(void *)&($1))|>)

# ------------------------------------------------------------------------------------- environment
# Parameters and variables end in "_": programs have globals and macros of every short name.

define(<|EXTERN_ENV|>, <|
#ifndef PARMACS_PTHREAD_ENV
#define PARMACS_PTHREAD_ENV
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef PAGE_SIZE
#define PAGE_SIZE 4096
#endif

#define ROAM_SHARED

#define PARMACS_THREADS_MAX 1024
#define PARMACS_MASK_WORDS 64
#define PARMACS_WORD_BITS (8 * sizeof(unsigned long))
#define PARMACS_INLINE static __inline__ __attribute__((unused))

#ifndef __USE_MISC
extern long syscall(long, ...);
#endif

typedef char parmacs_mutex_fits[sizeof(roam_mutex) == sizeof(pthread_mutex_t) ? 1 : -1];
typedef char parmacs_cond_fits[sizeof(roam_cond) == sizeof(pthread_cond_t) ? 1 : -1];

struct parmacs_thread {
	pthread_t id;
	void (*fn)(void);
	unsigned number;
};

struct parmacs_state {
	struct parmacs_thread thread[PARMACS_THREADS_MAX];
	unsigned threads;
	unsigned cpus;
	unsigned long allowed[PARMACS_MASK_WORDS];
};
extern struct parmacs_state parmacs_state;

PARMACS_INLINE void parmacs_must(int err_, const char *what_, const char *file_, int line_)
{
	if (err_ == 0)
		return;
	fprintf(stderr, "%s:%d: %s: %s\n", file_, line_, what_, strerror(err_));
	exit(1);
}

PARMACS_INLINE void *parmacs_alloc(size_t bytes_, const char *what_, const char *file_, int line_)
{
	void *block_ = malloc(bytes_ != 0 ? bytes_ : 1);

	if (block_ == NULL)
		parmacs_must(ENOMEM, what_, file_, line_);
	return block_;
}

PARMACS_INLINE unsigned long parmacs_clock_us(void)
{
	struct timespec now_;

	clock_gettime(CLOCK_MONOTONIC, &now_);
	return (unsigned long)now_.tv_sec * 1000000ul + (unsigned long)now_.tv_nsec / 1000ul;
}

PARMACS_INLINE int parmacs_allowed(unsigned cpu_)
{
	unsigned long word_ = parmacs_state.allowed[cpu_ / PARMACS_WORD_BITS];

	return (int)(word_ >> cpu_ % PARMACS_WORD_BITS & 1ul);
}

PARMACS_INLINE void parmacs_set_cpus(const unsigned long *mask_)
{
	syscall(SYS_sched_setaffinity, 0, PARMACS_MASK_WORDS * sizeof(unsigned long), mask_);
}

PARMACS_INLINE void parmacs_pin(unsigned number_)
{
	unsigned long one_[PARMACS_MASK_WORDS];
	unsigned skip_ = number_ % parmacs_state.cpus;
	unsigned cpu_ = 0;

	while (!parmacs_allowed(cpu_) || skip_-- > 0)
		cpu_++;
	memset(one_, 0, sizeof(one_));
	one_[cpu_ / PARMACS_WORD_BITS] = 1ul << cpu_ % PARMACS_WORD_BITS;
	parmacs_set_cpus(one_);
}

PARMACS_INLINE void *parmacs_enter(void *arg_)
{
	struct parmacs_thread *thread_ = (struct parmacs_thread *)arg_;

	parmacs_pin(thread_->number);
	thread_->fn();
	return NULL;
}

PARMACS_INLINE int parmacs_first_create(struct parmacs_state *state_)
{
	unsigned cpu_;

	memset(state_->allowed, 0, sizeof(state_->allowed));
	if (syscall(SYS_sched_getaffinity, 0, sizeof(state_->allowed), state_->allowed) < 0)
		return errno;
	state_->cpus = 0;
	for (cpu_ = 0; cpu_ < PARMACS_MASK_WORDS * PARMACS_WORD_BITS; cpu_++)
		state_->cpus += (unsigned)parmacs_allowed(cpu_);
	state_->threads = 1;
	parmacs_pin(0);
	return 0;
}

PARMACS_INLINE int parmacs_create(void (*fn_)(void))
{
	struct parmacs_state *state_ = &parmacs_state;
	struct parmacs_thread *thread_;
	int err_ = state_->threads == 0 ? parmacs_first_create(state_) : 0;

	if (err_ != 0)
		return err_;
	if (state_->threads == PARMACS_THREADS_MAX)
		return EAGAIN;
	thread_ = &state_->thread[state_->threads];
	thread_->fn = fn_;
	thread_->number = state_->threads;
	__atomic_store_n(&state_->threads, state_->threads + 1, __ATOMIC_RELAXED);
	return pthread_create(&thread_->id, NULL, parmacs_enter, thread_);
}

PARMACS_INLINE int parmacs_create_all(void (*fn_)(void), long threads_)
{
	struct parmacs_state *state_ = &parmacs_state;
	int err_ = threads_ < 1 ? EINVAL : 0;
	long i_;

	if (err_ == 0 && state_->threads == 0)
		err_ = parmacs_first_create(state_);
	for (i_ = 1; i_ < threads_ && err_ == 0; i_++)
		err_ = parmacs_create(fn_);
	if (err_ == 0)
		fn_();
	return err_;
}

PARMACS_INLINE int parmacs_wait_for_end(void)
{
	struct parmacs_state *state_ = &parmacs_state;
	unsigned i_;
	int err_ = 0;

	for (i_ = 1; i_ < state_->threads && err_ == 0; i_++)
		err_ = pthread_join(state_->thread[i_].id, NULL);
	if (state_->threads != 0)
		parmacs_set_cpus(state_->allowed);
	state_->threads = 0;
	return err_;
}

PARMACS_INLINE void parmacs_wait_change(const unsigned *word_, unsigned old_)
{
	unsigned threads_ = __atomic_load_n(&parmacs_state.threads, __ATOMIC_RELAXED);
	unsigned spins_ = threads_ <= parmacs_state.cpus ? 100000 : 0;

	while (__atomic_load_n(word_, __ATOMIC_ACQUIRE) == old_) {
		if (spins_ == 0) {
			sched_yield();
			continue;
		}
		spins_--;
#if defined(__x86_64__) || defined(__i386__)
		__builtin_ia32_pause();
#endif
	}
}

PARMACS_INLINE void parmacs_barrier(unsigned *count_, unsigned *turn_, unsigned threads_)
{
	unsigned now_ = __atomic_load_n(turn_, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(count_, 1, __ATOMIC_ACQ_REL) == threads_) {
		__atomic_store_n(count_, 0, __ATOMIC_RELAXED);
		__atomic_store_n(turn_, now_ + 1, __ATOMIC_RELEASE);
	} else {
		parmacs_wait_change(turn_, now_);
	}
}

PARMACS_INLINE int parmacs_locks_init(void *locks_, unsigned long count_)
{
	pthread_mutex_t *mutex_ = (pthread_mutex_t *)locks_;
	unsigned long i_;
	int err_ = 0;

	for (i_ = 0; i_ < count_ && err_ == 0; i_++)
		err_ = pthread_mutex_init(&mutex_[i_], NULL);
	return err_;
}

struct parmacs_gs {
	roam_mutex lock;
	roam_turn barrier;
	long next;
	long left;
};

PARMACS_INLINE int parmacs_gs_init(void *subscripts_)
{
	struct parmacs_gs *gs_ = (struct parmacs_gs *)subscripts_;

	memset(gs_, 0, sizeof(*gs_));
	return pthread_mutex_init(roam_mutex_of(gs_->lock), NULL);
}

PARMACS_INLINE long parmacs_gs_get(void *subscripts_, long last_, long threads_)
{
	struct parmacs_gs *gs_ = (struct parmacs_gs *)subscripts_;
	long subscript_;

	pthread_mutex_lock(roam_mutex_of(gs_->lock));
	subscript_ = gs_->next <= last_ ? gs_->next++ : -1;
	if (subscript_ < 0 && ++gs_->left == threads_)
		gs_->next = gs_->left = 0;
	pthread_mutex_unlock(roam_mutex_of(gs_->lock));
	if (subscript_ < 0)
		parmacs_barrier(&gs_->barrier.count, &gs_->barrier.turn, (unsigned)threads_);
	return subscript_;
}

PARMACS_INLINE int parmacs_nlock_init(void *mutex_)
{
	pthread_mutexattr_t nested_;
	int err_ = pthread_mutexattr_init(&nested_);

	if (err_ == 0)
		err_ = pthread_mutexattr_settype(&nested_, PTHREAD_MUTEX_RECURSIVE_NP);
	if (err_ == 0)
		err_ = pthread_mutex_init((pthread_mutex_t *)mutex_, &nested_);
	pthread_mutexattr_destroy(&nested_);
	return err_;
}

struct parmacs_queue {
	roam_cond woken;
	long last;
	long first;
};

struct parmacs_mon {
	roam_mutex lock;
	roam_cond entry;
	long handed;
	long queues;
	struct parmacs_queue *queue;
};

PARMACS_INLINE int parmacs_mon_init(void *monitor_, long queues_)
{
	struct parmacs_mon *m_ = (struct parmacs_mon *)monitor_;
	int err_ = pthread_mutex_init(roam_mutex_of(m_->lock), NULL);
	long i_;

	m_->handed = 0;
	m_->queues = queues_ > 0 ? queues_ : 1;
	m_->queue = (struct parmacs_queue *)calloc((size_t)m_->queues, sizeof(*m_->queue));
	if (m_->queue == NULL)
		return ENOMEM;
	if (err_ == 0)
		err_ = pthread_cond_init(roam_cond_of(m_->entry), NULL);
	for (i_ = 0; i_ < m_->queues && err_ == 0; i_++)
		err_ = pthread_cond_init(roam_cond_of(m_->queue[i_].woken), NULL);
	return err_;
}

PARMACS_INLINE int parmacs_mon_enter(void *monitor_)
{
	struct parmacs_mon *m_ = (struct parmacs_mon *)monitor_;
	int err_ = pthread_mutex_lock(roam_mutex_of(m_->lock));

	while (err_ == 0 && m_->handed)
		err_ = pthread_cond_wait(roam_cond_of(m_->entry), roam_mutex_of(m_->lock));
	return err_;
}

PARMACS_INLINE int parmacs_mon_exit(void *monitor_)
{
	return pthread_mutex_unlock(roam_mutex_of(((struct parmacs_mon *)monitor_)->lock));
}

PARMACS_INLINE int parmacs_mon_delay(void *monitor_, long queue_)
{
	struct parmacs_mon *m_ = (struct parmacs_mon *)monitor_;
	struct parmacs_queue *q_;
	int err_ = queue_ < 0 || queue_ >= m_->queues ? EINVAL : 0;
	long turn_;

	if (err_ != 0)
		return err_;
	q_ = &m_->queue[queue_];
	turn_ = q_->last++;
	while (err_ == 0 && q_->first <= turn_)
		err_ = pthread_cond_wait(roam_cond_of(q_->woken), roam_mutex_of(m_->lock));
	m_->handed = 0;
	return err_ == 0 ? pthread_cond_broadcast(roam_cond_of(m_->entry)) : err_;
}

PARMACS_INLINE int parmacs_mon_continue(void *monitor_, long queue_)
{
	struct parmacs_mon *m_ = (struct parmacs_mon *)monitor_;
	struct parmacs_queue *q_;

	if (queue_ < 0 || queue_ >= m_->queues)
		return EINVAL;
	q_ = &m_->queue[queue_];
	if (q_->first < q_->last) {
		q_->first++;
		m_->handed = 1;
		pthread_cond_broadcast(roam_cond_of(q_->woken));
	}
	return pthread_mutex_unlock(roam_mutex_of(m_->lock));
}
#endif
|>)
define(<|MAIN_ENV|>, <|EXTERN_ENV
struct parmacs_state parmacs_state;
|>)
roam_macro(<|ENV|>, <||>)
roam_macro(<|MAIN_INITENV|>, <|{ }|>)
roam_macro(<|ROAM_NEEDS|>, <|{ }|>)
define(<|MAIN_END|>, <|{ exit(0); }|>)

# --------------------------------------------------------------------------------------- processes

roam_macro(<|CREATE|>, <|ifelse(<|$2|>, <||>,
<|roam_CREATE_ONE($1)|>, <|roam_CREATE_ALL($1, $2)|>)|>)
define(<|roam_CREATE_ALL|>,
<|roam_must(<|parmacs_create_all((void (*)(void))($1), (long)($2))|>, <|CREATE|>)|>)
define(<|roam_CREATE_ONE|>, <|roam_must(<|parmacs_create((void (*)(void))($1))|>, <|CREATE|>)|>)
roam_call(<|WAIT_FOR_END|>, <|parmacs_wait_for_end()|>)
roam_macro(<|GET_PID|>, <|{ ($1) = (int)syscall(SYS_gettid); }|>)

# ------------------------------------------------------------------------------------------ memory

define(<|roam_alloc|>, <|parmacs_alloc((size_t)($1), "$2", __FILE__, __LINE__)|>)
roam_macro(<|G_MALLOC|>, <|roam_alloc(<|$1|>, <|G_MALLOC|>);|>)
roam_macro(<|NU_MALLOC|>, <|roam_alloc(<|$1|>, <|NU_MALLOC|>);|>)
roam_macro(<|G_MALLOC_F|>, <|roam_alloc(<|$1|>, <|G_MALLOC_F|>)|>)
roam_macro(<|NU_MALLOC_F|>, <|roam_alloc(<|$1|>, <|NU_MALLOC_F|>)|>)
roam_macro(<|G_FREE|>, <|{ free((void *)($1)); }|>)
roam_macro(<|NU_FREE|>, <|{ free((void *)($1)); }|>)
roam_macro(<|SET_HOME|>, <|{ (void)($1); (void)($2); }|>)
roam_macro(<|GET_HOME|>, <|{ ($1) = 0; }|>)

# ------------------------------------------------------------------------------------------- locks

roam_macro(<|LOCKDEC|>, <|roam_mutex $1;|>)
roam_call(<|LOCKINIT|>, <|pthread_mutex_init(roam_mutex_of($1), NULL)|>)
roam_call(<|LOCK|>, <|pthread_mutex_lock(roam_mutex_of($1))|>)
roam_call(<|UNLOCK|>, <|pthread_mutex_unlock(roam_mutex_of($1))|>)

roam_macro(<|ALOCKDEC|>, <|roam_mutex $1[$2];|>)
roam_call(<|ALOCKINIT|>, <|parmacs_locks_init(($1), (unsigned long)($2))|>)
roam_call(<|ALOCK|>, <|pthread_mutex_lock(roam_mutex_of(($1)[$2]))|>)
roam_call(<|AULOCK|>, <|pthread_mutex_unlock(roam_mutex_of(($1)[$2]))|>)
roam_call(<|AUNLOCK|>, <|pthread_mutex_unlock(roam_mutex_of(($1)[$2]))|>)
roam_macro(<|AGETL|>, <|(($1)[$2])|>)

roam_macro(<|NLOCKDEC|>, <|roam_mutex $1;|>)
roam_call(<|NLOCKINIT|>, <|parmacs_nlock_init(&($1))|>)
roam_call(<|NLOCK|>, <|pthread_mutex_lock(roam_mutex_of($1))|>)
roam_call(<|NUNLOCK|>, <|pthread_mutex_unlock(roam_mutex_of($1))|>)

# ----------------------------------------------------------- barriers, condition variables, pauses

roam_macro(<|BARDEC|>, <|roam_turn $1;|>)
roam_macro(<|BARINIT|>, <|{ memset(&($1), 0, sizeof($1)); }|>)
roam_macro(<|BARRIER|>, <|{ dnl
parmacs_barrier(&($1).count, &($1).turn, (unsigned)($2)); }|>)

roam_macro(<|CONDVARDEC|>, <|roam_cond $1;|>)
roam_call(<|CONDVARINIT|>, <|pthread_cond_init(roam_cond_of($1), NULL)|>)
roam_call(<|CONDVARWAIT|>, <|pthread_cond_wait(roam_cond_of($1), roam_mutex_of($2))|>)
roam_call(<|CONDVARSIGNAL|>, <|pthread_cond_signal(roam_cond_of($1))|>)
roam_call(<|CONDVARBCAST|>, <|pthread_cond_broadcast(roam_cond_of($1))|>)

roam_macro(<|PAUSEDEC|>, <|roam_turn $1;|>)
roam_macro(<|PAUSEINIT|>, <|{ memset(&($1), 0, sizeof($1)); }|>)
roam_macro(<|SETPAUSE|>, <|{ __atomic_store_n(&($1).turn, 1, __ATOMIC_RELEASE); }|>)
roam_macro(<|WAITPAUSE|>, <|{ parmacs_wait_change(&($1).turn, 0); }|>)
roam_macro(<|CLEARPAUSE|>, <|{ __atomic_store_n(&($1).turn, 0, __ATOMIC_RELEASE); }|>)

roam_macro(<|EVENTDEC|>, <|roam_PAUSEDEC($@)|>)
roam_macro(<|EVENTINIT|>, <|roam_PAUSEINIT($@)|>)
roam_macro(<|EVENTSET|>, <|roam_SETPAUSE($@)|>)
roam_macro(<|EVENTWAIT|>, <|roam_WAITPAUSE($@)|>)
roam_macro(<|EVENTCLEAR|>, <|roam_CLEARPAUSE($@)|>)

# Self-scheduled subscripts 0 .. max; -1 once they are used up and all processes know it.
roam_macro(<|GSDEC|>, <|struct { roam_mutex lock; roam_turn barrier; long next, left; } $1;|>)
roam_call(<|GSINIT|>, <|parmacs_gs_init(&($1))|>)
roam_macro(<|GETSUB|>, <|{ ($2) = parmacs_gs_get(&($1), (long)($3), (long)($4)); }|>)
roam_macro(<|NU_GSDEC|>, <|roam_GSDEC($@)|>)
roam_macro(<|NU_GSINIT|>, <|roam_GSINIT($@)|>)
roam_macro(<|NU_GETSUB|>, <|roam_GETSUB($@)|>)

roam_macro(<|MONDEC|>, <|struct { roam_mutex lock; roam_cond entry; long handed, queues; dnl
void *queue; } $1;|>)
roam_call(<|MONINIT|>, <|parmacs_mon_init(&($1), (long)ifelse(<|$2|>, <||>, 1, <|($2)|>))|>)
roam_call(<|MENTER|>, <|parmacs_mon_enter(&($1))|>)
roam_call(<|MEXIT|>, <|parmacs_mon_exit(&($1))|>)
roam_call(<|DELAY|>, <|parmacs_mon_delay(&($1), (long)($2))|>)
roam_call(<|CONTINUE|>, <|parmacs_mon_continue(&($1), (long)($2))|>)

roam_macro(<|RELEASE_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_RELEASE); }|>)
roam_macro(<|ACQUIRE_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_ACQUIRE); }|>)
roam_macro(<|FULL_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_SEQ_CST); }|>)

# ---------------------------------------------------------------------------------- time and marks

roam_macro(<|CLOCK|>, <|{ ($1) = parmacs_clock_us(); }|>)
define(<|SPLASH3_ROI_BEGIN|>, <|{ }|>)
define(<|SPLASH3_ROI_END|>, <|{ }|>)

# What simulators of the time marked.
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

# C programs use these words for themselves.
ifdef(<|len|>, <|undefine(<|len|>)|>)
ifdef(<|index|>, <|undefine(<|index|>)|>)
divert(0)dnl
