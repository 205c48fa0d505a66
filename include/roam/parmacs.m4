divert(-1)
# PARMACS (ANL) macros over roam: the macro file of SPLASH-2 programs of all generations.
#
#	m4 -Ulen -Uindex parmacs.m4 program.C > program.c
#	cc program.c $(pkg-config --cflags --libs roam) -lm
#
# Both forms of CREATE (one argument: makes one process; two: makes P - 1 and calls the function
# itself), BARINIT and WAIT_FOR_END are accepted.  Home and heap size arguments are ignored: pages find
# their homes by first touch.
#
# Rules that every macro here keeps, because existing programs depend on them:
# - A macro expands only before "(" (MAIN_ENV, EXTERN_ENV, MAIN_END and the ROI marks excepted): its
#   bare name in a string or a comment is left alone.  No number of arguments is an error.  No
#   expansion contains a comment.
# - Statement macros expand to a brace block: usable with and without ";" and as the body of an if.
# - G_MALLOC and NU_MALLOC end in their own ";", because programs omit it.
# - A synchronisation object is one unsigned long, named by its address; declarations need no
#   header.
# - A call that fails ends the program with one line, "file:line: LOCK: text".
# - PAGE_SIZE is exactly the token 4096, for programs that align to it and have no number of their
#   own; those that define it later, as 4096, redefine nothing.
# Quotes are changed to <| |>, so that m4 ignores apostrophes and backquotes in C.
changequote(<|, |>)

# roam_macro(NAME, body): NAME(...) becomes the body; NAME without "(" stays.
define(<|roam_macro|>, <|roam_macro_as(<|$1|>, <|$2|>, <|$|>)|>)
define(<|roam_macro_as|>, <|define(<|roam_$1|>, <|$2|>)define(<|$1|>,
<|ifelse($3#, 0, <|<|$1|>|>, <|roam_$1($3@)|>)|>)|>)

# roam_must(call, NAME): a statement that checks the call's enum roam_err.
# roam_call(NAME, call): NAME(...) becomes that statement.
define(<|roam_must|>, <|{ roam_parmacs_must($1, "$2", __FILE__, __LINE__); }|>)
define(<|roam_call|>, <|roam_macro(<|$1|>, <|roam_must(<|$2|>, <|$1|>)|>)|>)

# ------------------------------------------------------------------------------------- environment
# Parameters and variables end in "_": programs have globals and macros of every short name.

define(<|roam_env|>, <|
#ifndef ROAM_PARMACS_ENV
#define ROAM_PARMACS_ENV
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

static __inline__ __attribute__((unused)) void *roam_parmacs_alloc(size_t bytes_, const char *what_,
    const char *file_, int line_)
{
	const char *base_ = file_, *at_;
	char name_[64];
	void *block_;

	for (at_ = file_; *at_ != 0; at_++)
		base_ = *at_ == '/' ? at_ + 1 : base_;
	sprintf(name_, "%.48s:%d", base_, line_);
	block_ = roam_alloc_placed(bytes_ != 0 ? bytes_ : 1, ROAM_PLACE_FIRST_TOUCH, 0, name_);
	if (block_ == NULL)
		roam_parmacs_must(roam_errno(), what_, file_, line_);
	return block_;
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
	if (roam_start_main() != ROAM_OK)
		exit(1);
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

roam_macro(<|G_MALLOC|>, <|roam_parmacs_alloc((size_t)($1), "G_MALLOC", __FILE__, __LINE__);|>)
roam_macro(<|NU_MALLOC|>, <|roam_parmacs_alloc((size_t)($1), "NU_MALLOC", __FILE__, __LINE__);|>)
roam_call(<|G_FREE|>, <|roam_free((void *)($1))|>)
roam_call(<|NU_FREE|>, <|roam_free((void *)($1))|>)
roam_macro(<|SET_HOME|>, <|{ }|>)
roam_macro(<|GET_HOME|>, <|{ }|>)

# ------------------------------------------------------------------------------------------- locks

roam_macro(<|LOCKDEC|>, <|unsigned long $1;|>)
roam_call(<|LOCKINIT|>, <|roam_lock_init(&($1))|>)
roam_call(<|LOCK|>, <|roam_lock(&($1))|>)
roam_call(<|UNLOCK|>, <|roam_unlock(&($1))|>)

roam_macro(<|ALOCKDEC|>, <|unsigned long $1[$2];|>)
roam_call(<|ALOCKINIT|>, <|roam_parmacs_locks_init(($1), (unsigned long)($2))|>)
roam_call(<|ALOCK|>, <|roam_lock(&($1)[$2])|>)
roam_call(<|AULOCK|>, <|roam_unlock(&($1)[$2])|>)
roam_macro(<|AGETL|>, <|(($1)[$2])|>)

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

# Self-scheduled subscripts 0 .. max; -1 once they are used up and all processes know it.
roam_macro(<|GSDEC|>, <|struct { unsigned long lock, barrier; long next, left; } $1;|>)
roam_call(<|GSINIT|>, <|roam_parmacs_gs_init(&($1))|>)
roam_macro(<|GETSUB|>, <|{ long roam_parmacs_sub; dnl
roam_must(<|roam_parmacs_gs_get(&($1), &roam_parmacs_sub, (long)($3), (long)($4))|>, <|GETSUB|>) dnl
($2) = roam_parmacs_sub; }|>)

# Locks, pauses and barriers order everything; a fence stops the compiler and the CPU, no more.
roam_macro(<|RELEASE_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_RELEASE); }|>)
roam_macro(<|ACQUIRE_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_ACQUIRE); }|>)
roam_macro(<|FULL_FENCE|>, <|{ __atomic_thread_fence(__ATOMIC_SEQ_CST); }|>)

# ---------------------------------------------------------------------------------- time and marks

roam_macro(<|CLOCK|>, <|{ ($1) = roam_clock_us(); }|>)
define(<|SPLASH3_ROI_BEGIN|>, <|{ }|>)
define(<|SPLASH3_ROI_END|>, <|{ }|>)
roam_macro(<|AUG_ON|>, <|{ }|>)
roam_macro(<|AUG_OFF|>, <|{ }|>)
roam_macro(<|AUG_DELAY|>, <|{ }|>)
roam_macro(<|ST_LOG|>, <|{ }|>)

# C programs use these words for themselves.
ifdef(<|len|>, <|undefine(<|len|>)|>)
ifdef(<|index|>, <|undefine(<|index|>)|>)
divert(0)dnl
