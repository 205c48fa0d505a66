#include "launch/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

#define OWN_NAMES 64u /* that another user would have to take */

/* Says what stands at the path, which is not a directory of this user's alone. */
static bool own_wrong(struct roami_bound *bound, const char *path, int error, bool *others_p)
{
	struct stat status;

	if (lstat(path, &status) != 0)
		return roami_bound_fail(bound, "%s: %s", path, strerror(error));
	*others_p = status.st_uid != geteuid();
	if (*others_p)
		return roami_bound_fail(bound, "%s: it belongs to user %u", path,
					(unsigned)status.st_uid);
	if (!S_ISDIR(status.st_mode))
		return roami_bound_fail(bound, "%s: not a directory", path);
	if ((status.st_mode & 077) != 0)
		return roami_bound_fail(bound, "%s: others may enter it (chmod 700)", path);
	return roami_bound_fail(bound, "%s: %s", path, strerror(error));
}

/* Makes the directory if it does not exist; *others_p: the name is another user's. */
static bool own_make(struct roami_bound *bound, struct roami_own *own, bool *others_p)
{
	struct stat status;
	int fd = -1, error;

	*others_p = false;
	if (mkdir(own->path, 0700) == 0 || errno == EEXIST)
		fd = roami_os_fd(open(own->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	error = errno;
	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
	    (status.st_mode & 077) == 0) {
		own->directory = fd;
		return true;
	}
	if (fd >= 0)
		close(fd);
	return own_wrong(bound, own->path, error, others_p);
}

/* The variable may name another user's directory, or one that does not exist on this host. */
static bool own_runtime(struct roami_own *own)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	struct stat status;

	return runtime != NULL && runtime[0] == '/' && stat(runtime, &status) == 0 &&
	       S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       (status.st_mode & 077) == 0 &&
	       snprintf(own->path, sizeof(own->path), "%s/roam", runtime) < (int)sizeof(own->path);
}

static void own_name(struct roami_own *own, unsigned name)
{
	int length = snprintf(own->path, sizeof(own->path), P_tmpdir "/roam-%u",
			      (unsigned)geteuid());

	if (name > 0)
		snprintf(own->path + length, sizeof(own->path) - (size_t)length, ".%u", name);
}

/*
 * An existing directory of this user is preferred to a free name: all processes of the user must
 * take one directory, and another user may free a name at any time by removing a directory.
 */
static bool own_temporary(struct roami_bound *bound, struct roami_own *own)
{
	struct stat status;
	bool others;

	for (unsigned name = 0; name < OWN_NAMES; name++) {
		own_name(own, name);
		if (lstat(own->path, &status) == 0 && status.st_uid == geteuid())
			return own_make(bound, own, &others);
	}
	for (unsigned name = 0; name < OWN_NAMES; name++) {
		own_name(own, name);
		if (own_make(bound, own, &others))
			return true;
		if (!others)
			return false;
	}
	return false;
}

bool roami_own_open(struct roami_bound *bound, struct roami_own *own)
{
	bool others;

	own->directory = own->claims = -1;
	if (own_runtime(own) ? !own_make(bound, own, &others) : !own_temporary(bound, own))
		return false;
	own->claims = roami_os_fd(openat(own->directory, "claims",
					 O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
	return own->claims >= 0 ||
	       roami_bound_fail(bound, "%s/claims: %s", own->path, strerror(errno));
}

void roami_own_close(struct roami_own *own)
{
	if (own->claims >= 0)
		close(own->claims);
	if (own->directory >= 0)
		close(own->directory);
	own->directory = own->claims = -1;
}

uint64_t roami_own_hash(uint64_t so_far, const char *text)
{
	uint64_t hash = so_far != 0 ? so_far : UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/* A shared lock, unlike a claim: a process that claims the byte can tell them apart. */
bool roami_own_hold(const struct roami_own *own, uint64_t at)
{
	struct flock lock = {
		.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};

	return fcntl(own->claims, F_SETLK, &lock) == 0;
}

void roami_own_free(const struct roami_own *own, uint64_t at)
{
	struct flock lock = {
		.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};

	fcntl(own->claims, F_SETLK, &lock);
}
