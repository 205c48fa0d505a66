/* What error codes mean, in words. */
#include "roam/roam.h"

const char *roam_strerror(enum roam_err err)
{
#define ERR_TEXT(name, value, text) \
	case ROAM_##name:           \
		return text;
	switch (err) {
		ROAM_ERRORS(ERR_TEXT)
	}
#undef ERR_TEXT
	return "unknown error";
}
