#include "os/restart.h"

#if defined(__SANITIZE_ADDRESS__)
#define RESTART_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RESTART_ASAN 1
#endif
#endif

#ifdef RESTART_ASAN
#include <sanitizer/asan_interface.h>
#endif

#ifdef ROAMI_RESTART_LIBRARY

int roami_restart_run(struct roami_restart *restart, void (*fn)(void *arg), void *arg)
{
	restart->sp = __builtin_frame_address(0);
	if (_setjmp(restart->jump) != 0)
		return restart->value;
	fn(arg);
	return 0;
}

/* The frame is not known well enough. */
bool roami_restart_is(uintptr_t code)
{
	(void)code;
	return false;
}

void roami_restart_leave(struct roami_restart *restart, int value)
{
	restart->value = value;
	_longjmp(restart->jump, 1);
}

#else

/*
 * The frame, upwards from the stack pointer that is kept: the control words of SSE and x87, the
 * shadow stack pointer (0 where there is none), a word for alignment, r15 to rbx, rbp.  A jump
 * empties the x87 stack, whose registers may be in use where it comes from, and pops the shadow
 * stack.  To the compiler this is a plain function that returns once for each call.
 */
__attribute__((noreturn)) void roami_restart_back(void *sp, int value);

__asm__(".text\n"
	".globl roami_restart_enter\n"
	".hidden roami_restart_enter\n"
	".type roami_restart_enter, @function\n"
	"roami_restart_enter:\n"
	"	.cfi_startproc\n"
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	pushq %rbx\n"
	"	.cfi_offset %rbx, -24\n"
	"	pushq %r12\n"
	"	.cfi_offset %r12, -32\n"
	"	pushq %r13\n"
	"	.cfi_offset %r13, -40\n"
	"	pushq %r14\n"
	"	.cfi_offset %r14, -48\n"
	"	pushq %r15\n"
	"	.cfi_offset %r15, -56\n"
	"	subq $24, %rsp\n"
	"	stmxcsr (%rsp)\n"
	"	fnstcw 4(%rsp)\n"
	"	xorl %eax, %eax\n"
	"	rdsspq %rax\n"
	"	movq %rax, 8(%rsp)\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rdx, %rdi\n"
	"	call *%rsi\n"
	"	xorl %eax, %eax\n"
	"1:	leaq -40(%rbp), %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size roami_restart_enter, . - roami_restart_enter\n"
	".globl roami_restart_back\n"
	".hidden roami_restart_back\n"
	".type roami_restart_back, @function\n"
	"roami_restart_back:\n"
	"	movq %rdi, %rsp\n"
	"	movl %esi, %eax\n"
	"	fninit\n"
	"	fldcw 4(%rsp)\n"
	"	ldmxcsr (%rsp)\n"
	"	cld\n"
	"	leaq 64(%rsp), %rbp\n"
	"	movq 8(%rsp), %rcx\n"
	"	testq %rcx, %rcx\n"
	"	jz 1b\n"
	"	xorl %edx, %edx\n"
	"	rdsspq %rdx\n"
	"	subq %rdx, %rcx\n"
	"	shrq $3, %rcx\n"
	"2:	movl $255, %edx\n"
	"	cmpq %rdx, %rcx\n"
	"	cmovbq %rcx, %rdx\n"
	"	incsspq %rdx\n"
	"	subq %rdx, %rcx\n"
	"	jnz 2b\n"
	"	jmp 1b\n"
	".size roami_restart_back, . - roami_restart_back\n");

int roami_restart_enter(struct roami_restart *restart, void (*fn)(void *arg), void *arg);

int roami_restart_run(struct roami_restart *restart, void (*fn)(void *arg), void *arg)
{
	return roami_restart_enter(restart, fn, arg);
}

bool roami_restart_is(uintptr_t code)
{
	uintptr_t enter = (uintptr_t)roami_restart_enter;

	return code - enter < (uintptr_t)roami_restart_back - enter;
}

void roami_restart_leave(struct roami_restart *restart, int value)
{
#ifdef RESTART_ASAN
	__asan_handle_no_return();
#endif
	roami_restart_back(restart->sp, value);
}

#endif
