#include "launch/pmi1.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "os/os.h"

#define LENGTH_DIGITS 8u   /* before the bytes of a blob */
#define PUT_MAX       960u /* of a line: some servers take no more than 1024 bytes of it */
#define PUT_WORDS     60u  /* of it besides the name and the value */
#define PART_MAX      400u /* bytes of a blob in a value, two digits each */
#define VALUE_MIN     64u
#define CONNECT_S     5

/* --------------------------------------------------------------------------------------- lines */

/* The value of a line's key, up to a space; false: there is none, or no room for it. */
static bool pmi1_value(const char *line, const char *key, char *value, size_t bytes)
{
	size_t length = strlen(key), count;
	const char *at = line;

	while (strncmp(at, key, length) != 0 || at[length] != '=') {
		at = strchr(at, ' ');
		if (at == NULL)
			return false;
		at++;
	}
	at += length + 1;
	count = strcspn(at, " ");
	if (count >= bytes)
		return false;
	memcpy(value, at, count);
	value[count] = '\0';
	return true;
}

static bool pmi1_number(const char *line, const char *key, unsigned long most, unsigned *number)
{
	char text[16], *end;
	unsigned long value;

	if (!pmi1_value(line, key, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return false;
	value = strtoul(text, &end, 10);
	*number = (unsigned)value;
	return *end == '\0' && value <= most;
}

__attribute__((format(printf, 3, 4))) static bool pmi1_write(struct roami_bound *bound,
							     struct roami_pmi1 *pmi,
							     const char *format, ...)
{
	char text[ROAMI_PMI1_LINE];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(text))
		return roami_bound_fail(bound, "PMI: a line too long");
	return roami_os_send(pmi->fd, text, (size_t)length) ||
	       roami_bound_fail(bound, "PMI: the launcher is gone: %s", strerror(errno));
}

/* The next line, into pmi->line. */
static bool pmi1_read(struct roami_bound *bound, struct roami_pmi1 *pmi)
{
	for (;;) {
		char *start = pmi->in + pmi->used;
		char *end = memchr(start, '\n', pmi->have - pmi->used);
		ssize_t got;

		if (end != NULL) {
			*end = '\0';
			memcpy(pmi->line, start, (size_t)(end - start) + 1);
			pmi->used = (size_t)(end + 1 - pmi->in);
			return strlen(pmi->line) == (size_t)(end - start) ||
			       roami_bound_fail(bound, "PMI: a malformed line from the launcher");
		}
		pmi->have -= pmi->used;
		memmove(pmi->in, start, pmi->have);
		pmi->used = 0;
		if (pmi->have == sizeof(pmi->in))
			return roami_bound_fail(bound, "PMI: a line too long from the launcher");
		if (!roami_bound_wait(bound, pmi->fd, POLLIN))
			return false;
		got = recv(pmi->fd, pmi->in + pmi->have, sizeof(pmi->in) - pmi->have, 0);
		if (got == 0 || (got < 0 && errno != EINTR))
			return roami_bound_fail(bound,
						"PMI: the launcher has closed the connection");
		pmi->have += got > 0 ? (size_t)got : 0;
	}
}

/* Whether the next line is `command` and reports no error. */
static bool pmi1_expect(struct roami_bound *bound, struct roami_pmi1 *pmi, const char *command)
{
	char text[64];

	if (!pmi1_read(bound, pmi))
		return false;
	if (!pmi1_value(pmi->line, "cmd", text, sizeof(text)) || strcmp(text, command) != 0)
		return roami_bound_fail(bound, "PMI: the launcher said `%.80s' in place of %s",
					pmi->line, command);
	if (pmi1_value(pmi->line, "rc", text, sizeof(text)) && strcmp(text, "0") != 0)
		return roami_bound_fail(bound, "PMI: the launcher refuses: %.120s", pmi->line);
	return true;
}

static bool pmi1_malformed(struct roami_bound *bound, const struct roami_pmi1 *pmi)
{
	return roami_bound_fail(bound, "PMI: malformed: %.120s", pmi->line);
}

/* --------------------------------------------------------------------------------------- start */

bool roami_pmi1_ack(struct roami_bound *bound, struct roami_pmi1 *pmi, unsigned number)
{
	unsigned debug;

	if (!pmi1_write(bound, pmi, "cmd=initack pmiid=%u\n", number) ||
	    !pmi1_expect(bound, pmi, "initack") || !pmi1_expect(bound, pmi, "set"))
		return false;
	if (!pmi1_number(pmi->line, "size", UINT_MAX, &bound->nodes))
		return pmi1_malformed(bound, pmi);
	if (!pmi1_expect(bound, pmi, "set"))
		return false;
	if (!pmi1_number(pmi->line, "rank", UINT_MAX, &bound->me))
		return pmi1_malformed(bound, pmi);
	if (!pmi1_expect(bound, pmi, "set"))
		return false;
	return pmi1_number(pmi->line, "debug", 99, &debug) || pmi1_malformed(bound, pmi);
}

bool roami_pmi1_begin(struct roami_bound *bound, struct roami_pmi1 *pmi)
{
	unsigned value;
	size_t room;

	if (!pmi1_write(bound, pmi, "cmd=init pmi_version=1 pmi_subversion=1\n") ||
	    !pmi1_expect(bound, pmi, "response_to_init") ||
	    !pmi1_write(bound, pmi, "cmd=get_maxes\n") || !pmi1_expect(bound, pmi, "maxes"))
		return false;
	if (!pmi1_number(pmi->line, "vallen_max", 1 << 20, &value) || value < VALUE_MIN)
		return pmi1_malformed(bound, pmi);
	if (!pmi1_write(bound, pmi, "cmd=get_my_kvsname\n") ||
	    !pmi1_expect(bound, pmi, "my_kvsname"))
		return false;
	if (!pmi1_value(pmi->line, "kvsname", pmi->name, sizeof(pmi->name)) ||
	    pmi->name[0] == '\0')
		return pmi1_malformed(bound, pmi);
	room = PUT_MAX - PUT_WORDS - strlen(pmi->name);
	pmi->part = ((value < room ? value : room) - 1 - LENGTH_DIGITS) / 2;
	if (pmi->part > PART_MAX)
		pmi->part = PART_MAX;
	return true;
}

/* ----------------------------------------------------------------------------------- gathering */

static void pmi1_to_hex(const uint8_t *data, size_t bytes, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < bytes; i++) {
		*text++ = digits[data[i] >> 4];
		*text++ = digits[data[i] & 15];
	}
	*text = '\0';
}

static int pmi1_digit(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool pmi1_from_hex(const char *text, uint8_t *data, size_t bytes)
{
	if (strlen(text) != 2 * bytes)
		return false;
	for (size_t i = 0; i < bytes; i++, text += 2) {
		int high = pmi1_digit(text[0]), low = pmi1_digit(text[1]);

		if (high < 0 || low < 0)
			return false;
		data[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool pmi1_put(struct roami_bound *bound, struct roami_pmi1 *pmi, const uint8_t *mine,
		     size_t bytes)
{
	char text[2 * PART_MAX + 1];

	for (size_t at = 0, part = 0; part == 0 || at < bytes; at += pmi->part, part++) {
		size_t count = bytes - at < pmi->part ? bytes - at : pmi->part;

		pmi1_to_hex(mine + at, count, text);
		if (!pmi1_write(bound, pmi, "cmd=put kvsname=%s key=roam-%u-%u-%zu value=%08zx%s\n",
				pmi->name, pmi->round, bound->me, part, bytes, text) ||
		    !pmi1_expect(bound, pmi, "put_result"))
			return false;
	}
	return true;
}

/* Gets one part of what a node has put; the first part says how much there is. */
static bool pmi1_get_part(struct roami_bound *bound, struct roami_pmi1 *pmi, unsigned node,
			  struct roami_blob *blob, size_t at)
{
	char value[LENGTH_DIGITS + 2 * PART_MAX + 1], *end, digit;
	size_t bytes, count;

	if (!pmi1_write(bound, pmi, "cmd=get kvsname=%s key=roam-%u-%u-%zu\n", pmi->name,
			pmi->round, node, at / pmi->part) ||
	    !pmi1_expect(bound, pmi, "get_result"))
		return false;
	if (!pmi1_value(pmi->line, "value", value, sizeof(value)) ||
	    strlen(value) < LENGTH_DIGITS || strspn(value, "0123456789abcdef") != strlen(value))
		return pmi1_malformed(bound, pmi);
	digit = value[LENGTH_DIGITS];
	value[LENGTH_DIGITS] = '\0';
	bytes = strtoul(value, &end, 16);
	value[LENGTH_DIGITS] = digit;
	if (at == 0)
		blob->bytes = (uint32_t)bytes;
	if (bytes != blob->bytes || bytes > ROAMI_BLOB_BYTES)
		return pmi1_malformed(bound, pmi);
	count = bytes - at < pmi->part ? bytes - at : pmi->part;
	return pmi1_from_hex(value + LENGTH_DIGITS, blob->data + at, count) ||
	       pmi1_malformed(bound, pmi);
}

bool roami_pmi1_gather(struct roami_bound *bound, struct roami_pmi1 *pmi, const void *mine,
		       size_t bytes, struct roami_blob *all)
{
	if (!pmi1_put(bound, pmi, mine, bytes) || !pmi1_write(bound, pmi, "cmd=barrier_in\n") ||
	    !pmi1_expect(bound, pmi, "barrier_out"))
		return false;
	for (unsigned node = 0; node < bound->nodes; node++) {
		size_t at = 0;

		do {
			if (!pmi1_get_part(bound, pmi, node, &all[node], at))
				return false;
			at += pmi->part;
		} while (at < all[node].bytes);
	}
	pmi->round++;
	return true;
}

/* ----------------------------------------------------------------------------------- as binding */

static const char *pmi1_marker(void)
{
	if (getenv("PMI_FD") != NULL)
		return "PMI_FD";
	return getenv("PMI_PORT") != NULL ? "PMI_PORT" : NULL;
}

static bool pmi1_works(char *text, size_t bytes)
{
	snprintf(text, bytes, "own client of PMI-1, by PMI_FD or PMI_PORT");
	return true;
}

static bool pmi1_env(const char *name, unsigned long most, unsigned *number)
{
	const char *text = getenv(name);
	unsigned long value;
	char *end;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return false;
	value = strtoul(text, &end, 10);
	*number = (unsigned)value;
	return *end == '\0' && value <= most;
}

/* PMI_FD, with PMI_RANK and PMI_SIZE. */
static bool pmi1_inherited(struct roami_bound *bound, struct roami_pmi1 *pmi)
{
	unsigned fd;

	if (!pmi1_env("PMI_FD", INT_MAX, &fd) || fcntl((int)fd, F_GETFD) < 0)
		return roami_bound_fail(bound, "PMI_FD=%.20s: not an open descriptor",
					getenv("PMI_FD"));
	if (!pmi1_env("PMI_RANK", UINT_MAX, &bound->me) ||
	    !pmi1_env("PMI_SIZE", UINT_MAX, &bound->nodes))
		return roami_bound_fail(bound, "PMI_FD without PMI_RANK or PMI_SIZE");
	pmi->fd = (int)fd;
	roami_os_fds_keep(pmi->fd, 1);
	return roami_bound_claim(bound, pmi->fd, 0);
}

static int pmi1_connect(const char *host, const char *port)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	const struct timeval patience = {CONNECT_S, 0};
	struct addrinfo *all, *at;
	int fd = -1;

	if (getaddrinfo(host, port, &hints, &all) != 0)
		return -1;
	for (at = all; at != NULL && fd < 0; at = at->ai_next) {
		fd = roami_os_fd(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0));
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(all);
	return fd;
}

/* PMI_PORT=HOST:PORT, with PMI_ID. */
static bool pmi1_called(struct roami_bound *bound, struct roami_pmi1 *pmi)
{
	const char *where = getenv("PMI_PORT"), *colon = strrchr(where, ':');
	char host[256];
	unsigned number;

	if (colon == NULL || (size_t)(colon - where) >= sizeof(host) ||
	    !pmi1_env("PMI_ID", UINT_MAX, &number))
		return roami_bound_fail(bound, "PMI_PORT=%.80s: malformed, or without PMI_ID",
					where);
	memcpy(host, where, (size_t)(colon - where));
	host[colon - where] = '\0';
	pmi->fd = pmi1_connect(host, colon + 1);
	if (pmi->fd < 0)
		return roami_bound_fail(bound, "PMI_PORT=%.80s: cannot connect: %s", where,
					strerror(errno));
	return roami_pmi1_ack(bound, pmi, number);
}

static bool pmi1_open(struct roami_bound *bound)
{
	struct roami_pmi1 *pmi = calloc(1, sizeof(*pmi));

	if (pmi == NULL)
		return roami_bound_fail(bound, "out of memory");
	bound->state = pmi;
	if (getenv("PMI_FD") != NULL ? !pmi1_inherited(bound, pmi) : !pmi1_called(bound, pmi))
		return false;
	return roami_pmi1_begin(bound, pmi);
}

static bool pmi1_gather(struct roami_bound *bound, const void *mine, size_t bytes,
			struct roami_blob *all)
{
	return roami_pmi1_gather(bound, bound->state, mine, bytes, all);
}

static void pmi1_abort(struct roami_bound *bound)
{
	static const char line[] = "cmd=abort exitcode=1\n";
	const struct roami_pmi1 *pmi = bound->state;

	if (send(pmi->fd, line, sizeof(line) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* it is gone already */
}

static void pmi1_close(struct roami_bound *bound)
{
	struct roami_pmi1 *pmi = bound->state;

	if (pmi1_write(bound, pmi, "cmd=finalize\n"))
		pmi1_expect(bound, pmi, "finalize_ack");
	close(pmi->fd);
	free(pmi);
	bound->state = NULL;
}

const struct roami_binding roami_bind_pmi1 = {
	.name = "pmi1",
	.launchers = "mpiexec.hydra, srun --mpi=pmi2",
	.marker = pmi1_marker,
	.works = pmi1_works,
	.open = pmi1_open,
	.gather = pmi1_gather,
	.abort = pmi1_abort,
	.close = pmi1_close,
};
