/*
 * The table of fault engines, from the list in meson.build.
 */
#include "fault/engine.h"

#define FAULT_ENGINE(name) extern const struct roami_fault_engine roami_fault_##name;
#include "fault/fault.def"
#undef FAULT_ENGINE

#define FAULT_ENGINE(name) &roami_fault_##name,
const struct roami_fault_engine *const roami_fault_engines[] = {
#include "fault/fault.def"
	NULL};
