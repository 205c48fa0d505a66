#include "ear.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

#define NS_PER_S 1000000000u

void roami_ear_init(struct roami_ear *ear)
{
	*ear = (struct roami_ear){.file = -1, .wake = {-1, -1}, .set = -1};
}

enum roam_err roami_ear_open(struct roami_ear *ear, const struct roam_transport_params *params,
			     int file)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (params->file_count > ROAM_STACKS_MAX)
		return ROAM_EINVAL;
	ear->file = file;
	ear->bell = params->bell;
	ear->file_count = params->file_count;
	for (unsigned i = 0; i < params->file_count; i++)
		ear->files[i] = params->files[i];
	for (unsigned i = 0; i < 2; i++)
		ear->wake[i] = roami_os_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	ear->set = roami_os_fd(epoll_create1(EPOLL_CLOEXEC));
	if (ear->wake[0] < 0 || ear->wake[1] < 0 || ear->set < 0 ||
	    epoll_ctl(ear->set, EPOLL_CTL_ADD, file, &event) != 0)
		return ROAM_ESYSTEM;
	for (unsigned i = 0; i < ear->file_count; i++)
		if (epoll_ctl(ear->set, EPOLL_CTL_ADD, ear->files[i], &event) != 0)
			return ROAM_ESYSTEM;
	return ROAM_OK;
}

void roami_ear_close(struct roami_ear *ear)
{
	if (ear->set >= 0)
		close(ear->set);
	for (unsigned i = 0; i < 2; i++)
		if (ear->wake[i] >= 0)
			close(ear->wake[i]);
	roami_ear_init(ear);
}

void roami_ear_wait(struct roami_ear *ear, enum roam_sleeper who, uint64_t timeout_ns)
{
	struct pollfd files[3 + ROAM_STACKS_MAX] = {
		{who == ROAM_SLEEPER_SERVICE ? ear->set : ear->file, POLLIN, 0},
		{ear->wake[who], POLLIN, 0},
		{ear->bell > 0 ? ear->bell : -1, POLLIN, 0}};
	struct timespec timeout = {(time_t)(timeout_ns / NS_PER_S), (long)(timeout_ns % NS_PER_S)};
	unsigned others = who == ROAM_SLEEPER_SERVICE ? 0 : ear->file_count;
	uint64_t counts[64]; /* large, as a bell may be a pipe */

	for (unsigned i = 0; i < others; i++)
		files[3 + i] = (struct pollfd){ear->files[i], POLLIN, 0};
	if (ppoll(files, 3 + others, timeout_ns == 0 ? NULL : &timeout, NULL) <= 0)
		return;
	for (unsigned i = 1; i < 3; i++)
		if (files[i].revents != 0 && read(files[i].fd, counts, sizeof(counts)) < 0)
			continue; /* another thread has emptied it already */
}

void roami_ear_wake(const struct roami_ear *ear, enum roam_sleeper who)
{
	uint64_t one = 1;

	if (write(ear->wake[who], &one, sizeof(one)) < 0)
		return; /* the counter is full, so the sleeper will wake */
}

void roami_ear_listen(struct roami_ear *ear, bool on)
{
	struct epoll_event event = {.events = EPOLLIN};
	int what = on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;

	/*
	 * Removed altogether: even an event that is not wanted would cost something for each
	 * datagram.
	 */
	epoll_ctl(ear->set, what, ear->file, &event);
	for (unsigned i = 0; i < ear->file_count; i++)
		epoll_ctl(ear->set, what, ear->files[i], &event);
}
