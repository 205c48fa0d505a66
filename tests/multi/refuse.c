/*
 * Runs a program to which the kernel refuses some system calls, as containers do.
 * refuse CALL[,CALL]... PROGRAM [ARGUMENT]...; a refused call fails with EPERM.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS_MAX 8

static const struct {
	const char *name;
	unsigned number;
} calls[] = {{"userfaultfd", SYS_userfaultfd},
	     {"memfd_create", SYS_memfd_create},
	     {"io_uring_setup", SYS_io_uring_setup},
	     {"pidfd_open", SYS_pidfd_open},
	     {"socket", SYS_socket}};

static unsigned call_number(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].number;
	fprintf(stderr, "refuse: unknown call %s\n", name);
	exit(2);
}

static void refuse(char *list)
{
	struct sock_filter code[2 * CALLS_MAX + 2];
	struct sock_fprog program = {0, code};
	unsigned short at = 0;

	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						  offsetof(struct seccomp_data, nr));
	for (char *name = strtok(list, ","); name != NULL && at < 2 * CALLS_MAX;
	     name = strtok(NULL, ",")) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							  call_number(name), 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							  SECCOMP_RET_ERRNO | EPERM);
	}
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = at;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("refuse: seccomp");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	refuse(argv[1]);
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
