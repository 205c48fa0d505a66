#include "roam_hosts.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MAX  64u
#define RANGES_MAX 8u

__attribute__((format(printf, 2, 3))) static bool hosts_wrong(struct hosts *hosts,
							      const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(hosts->why, sizeof(hosts->why), format, args);
	va_end(args);
	return false;
}

/* Letters, digits, and the other characters of host names, addresses and user@host. */
static bool host_letter(char c)
{
	return isalnum((unsigned char)c) || (c != '\0' && strchr(".-_@%", c) != NULL);
}

static bool hosts_add(struct hosts *hosts, const char *name, unsigned slots)
{
	struct host_entry *entry = hosts->entries;

	if (name[0] == '-' || name[0] == '\0')
		return hosts_wrong(hosts, "\"%.60s\" is not a host name", name);
	while (entry < hosts->entries + hosts->count && strcmp(entry->name, name) != 0)
		entry++;
	if (entry < hosts->entries + hosts->count) { /* named twice: its slots are added */
		slots = (entry->slots != 0 ? entry->slots : 1) + (slots != 0 ? slots : 1);
		entry->slots = slots < SLOTS_MAX ? slots : SLOTS_MAX;
		return true;
	}
	if (hosts->count == HOSTS_MAX)
		return hosts_wrong(hosts, "more than %u hosts", HOSTS_MAX);
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	entry->slots = slots;
	entry->nodes = 0;
	hosts->count++;
	return true;
}

/* Reads a number from 1 to SLOTS_MAX at *at; moves behind it. */
static bool hosts_number(struct hosts *hosts, const char **at, unsigned *number_p)
{
	unsigned long number;
	char *end;

	if (!isdigit((unsigned char)**at))
		return hosts_wrong(hosts, "a number of nodes is missing before \"%.40s\"", *at);
	number = strtoul(*at, &end, 10);
	if (number < 1 || number > SLOTS_MAX)
		return hosts_wrong(hosts, "%.20s nodes on a host: 1 to %u are allowed", *at,
				   SLOTS_MAX);
	*at = end;
	*number_p = (unsigned)number;
	return true;
}

/* Reads the digits of one end of a range; returns how many there are. */
static size_t range_digits(const char *at, unsigned long *number_p)
{
	size_t digits = strspn(at, "0123456789");

	*number_p = digits > 0 && digits < 10 ? strtoul(at, NULL, 10) : 0;
	return digits;
}

static bool expand(struct hosts *hosts, const char *done, const char *rest, size_t bytes,
		   unsigned slots, unsigned depth);

/* Expands one item of a bracket, "01-03" or "7", between `before` and `rest`. */
static bool expand_item(struct hosts *hosts, const char *before, const char *item, size_t length,
			const char *rest, size_t bytes, unsigned slots, unsigned depth)
{
	unsigned long first, last;
	size_t width = range_digits(item, &first), used = width;
	char name[HOST_NAME_MAX_];

	last = first;
	if (width > 0 && used < length && item[used] == '-') {
		size_t digits = range_digits(item + used + 1, &last);

		used = digits > 0 ? used + 1 + digits : 0;
	}
	if (width == 0 || width >= 10 || used != length || last < first ||
	    last - first >= HOSTS_MAX)
		return hosts_wrong(hosts, "\"%.*s\" is not a range of hosts", (int)length, item);
	for (; first <= last; first++) {
		if (snprintf(name, sizeof(name), "%s%0*lu", before, (int)width, first) >=
		    (int)sizeof(name))
			return hosts_wrong(hosts, "a host name is too long");
		if (!expand(hosts, name, rest, bytes, slots, depth))
			return false;
	}
	return true;
}

/* Adds the hosts that `rest`, appended to `done`, names. */
static bool expand(struct hosts *hosts, const char *done, const char *rest, size_t bytes,
		   unsigned slots, unsigned depth)
{
	const char *open = memchr(rest, '[', bytes), *close, *at;
	size_t plain = open != NULL ? (size_t)(open - rest) : bytes;
	char before[HOST_NAME_MAX_];

	if (snprintf(before, sizeof(before), "%s%.*s", done, (int)plain, rest) >=
	    (int)sizeof(before))
		return hosts_wrong(hosts, "a host name is too long");
	if (open == NULL)
		return hosts_add(hosts, before, slots);
	close = memchr(open, ']', bytes - plain);
	if (close == NULL || depth == 0)
		return hosts_wrong(hosts, "\"%.*s\" has no closing bracket, or too many",
				   (int)(bytes < 60 ? bytes : 60), rest);
	for (at = open + 1; at <= close; at++) {
		const char *comma = memchr(at, ',', (size_t)(close - at));
		const char *end = comma != NULL ? comma : close;

		if (!expand_item(hosts, before, at, (size_t)(end - at), close + 1,
				 bytes - (size_t)(close + 1 - rest), slots, depth - 1))
			return false;
		at = end;
	}
	return true;
}

/* The length of the name at `at`: letters, and brackets with their contents. */
static size_t host_bytes(const char *at)
{
	size_t bytes = 0;
	bool within = false;

	while (at[bytes] != '\0' && (host_letter(at[bytes]) || at[bytes] == '[' ||
				     at[bytes] == ']' || (within && at[bytes] == ','))) {
		within = at[bytes] == '[' || (within && at[bytes] != ']');
		bytes++;
	}
	return bytes;
}

/* Reads "host" or "host:N" at *at; moves behind it. */
static bool hosts_one(struct hosts *hosts, const char **at, const char **name_p, size_t *bytes_p,
		      unsigned *slots_p)
{
	*name_p = *at;
	*bytes_p = host_bytes(*at);
	*slots_p = 0;
	if (*bytes_p == 0)
		return hosts_wrong(hosts, "a host name is missing before \"%.40s\"", *at);
	*at += *bytes_p;
	if (**at != ':')
		return true;
	(*at)++;
	return hosts_number(hosts, at, slots_p);
}

bool hosts_parse_list(struct hosts *hosts, const char *text)
{
	const char *at = text, *name;
	unsigned slots;
	size_t bytes;

	for (;; at++) {
		if (!hosts_one(hosts, &at, &name, &bytes, &slots) ||
		    !expand(hosts, "", name, bytes, slots, RANGES_MAX))
			return false;
		if (*at == '\0')
			return true;
		if (*at != ',')
			return hosts_wrong(hosts, "\"%.40s\" follows a host", at);
	}
}

/* Reads what may follow a host: "slots=4", "max_slots=8", "x4". */
static bool line_words(struct hosts *hosts, const char *at, unsigned *slots_p)
{
	for (at += strspn(at, " \t"); *at != '\0'; at += strspn(at, " \t")) {
		if (strncmp(at, "slots=", 6) == 0 ||
		    (*at == 'x' && isdigit((unsigned char)at[1]))) {
			at += *at == 'x' ? 1 : 6;
			if (!hosts_number(hosts, &at, slots_p))
				return false;
		} else if (strncmp(at, "max_slots=", 10) == 0 ||
			   strncmp(at, "max-slots=", 10) == 0) {
			at += strcspn(at, " \t");
		} else {
			return hosts_wrong(hosts, "\"%.40s\" follows a host", at);
		}
		if (*at != '\0' && *at != ' ' && *at != '\t')
			return hosts_wrong(hosts, "\"%.40s\" follows a host", at);
	}
	return true;
}

static bool hosts_line(struct hosts *hosts, char *line)
{
	const char *at = line, *name;
	unsigned slots;
	size_t bytes;

	line[strcspn(line, "#\r")] = '\0';
	at += strspn(at, " \t");
	if (*at == '\0')
		return true;
	return hosts_one(hosts, &at, &name, &bytes, &slots) && line_words(hosts, at, &slots) &&
	       expand(hosts, "", name, bytes, slots, RANGES_MAX);
}

bool hosts_parse_file(struct hosts *hosts, const char *name, const char *text, size_t bytes)
{
	char line[1024], why[sizeof(hosts->why)];

	for (unsigned number = 1; bytes > 0; number++) {
		const char *end = memchr(text, '\n', bytes);
		size_t length = end != NULL ? (size_t)(end - text) : bytes;

		if (length >= sizeof(line) || memchr(text, '\0', length) != NULL)
			return hosts_wrong(hosts, "%.200s:%u: not a line of text", name, number);
		memcpy(line, text, length);
		line[length] = '\0';
		if (!hosts_line(hosts, line)) {
			snprintf(why, sizeof(why), "%s", hosts->why);
			return hosts_wrong(hosts, "%.200s:%u: %.180s", name, number, why);
		}
		text += length + (end != NULL);
		bytes -= length + (end != NULL);
	}
	if (hosts->count == 0)
		return hosts_wrong(hosts, "%.200s: no hosts in it", name);
	return true;
}

bool hosts_share(struct hosts *hosts, unsigned nodes)
{
	unsigned said = 0, unsaid = 0, kept = 0, left = nodes;

	for (unsigned i = 0; i < hosts->count; i++) {
		said += hosts->entries[i].slots;
		unsaid += hosts->entries[i].slots == 0;
	}
	if (unsaid == 0 && said < nodes)
		return hosts_wrong(hosts, "the hosts have room for %u nodes, -n asks for %u", said,
				   nodes);
	for (unsigned i = 0; i < hosts->count; i++) {
		struct host_entry *entry = &hosts->entries[i];
		unsigned free = nodes > said ? nodes - said : 0, want = entry->slots;

		if (want == 0) { /* the first hosts get one more, from the remainder */
			want = (free + unsaid - 1) / unsaid;
			want = want > 0 ? want : 1;
			said += want;
			unsaid--;
		}
		entry->nodes = want < left ? want : left;
		left -= entry->nodes;
		if (entry->nodes > 0)
			hosts->entries[kept++] = *entry;
	}
	hosts->count = kept;
	return true;
}
