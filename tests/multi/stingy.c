/* Loaded before libc: accept4 fails with the error that the file $STINGY has, if there is one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int refusal(void)
{
	const char *path = getenv("STINGY");
	FILE *file = path != NULL ? fopen(path, "re") : NULL;
	int error = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%d", &error) != 1)
		error = 0;
	fclose(file);
	return error;
}

int accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	int error = refusal();

	if (error == 0)
		return (int)syscall(SYS_accept4, fd, address, bytes, flags);
	errno = error;
	return -1;
}
