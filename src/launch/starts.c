#include "launch/starts.h"

#include <stddef.h>

const struct roami_start *const roami_starts[] = {
	&roami_start_agent, &roami_start_local, &roami_start_binding, &roami_start_fork, NULL,
};
