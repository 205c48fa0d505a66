/* The plug-ins of this build, from the lists in protocols/ and src/transport/. */
#include "base/node.h"
#include "base/transports.h"

#define PROTOCOL(name, stretch) extern const struct roam_protocol roami_protocol_##name;
#include "protocols.def"
#undef PROTOCOL

#define TRANSPORT(name) extern const struct roam_transport roami_transport_##name;
#include "transports.def"
#undef TRANSPORT

#define PROTOCOL(name, stretch) &roami_protocol_##name,
const struct roam_protocol *const roami_protocols[] = {
#include "protocols.def"
	NULL};
#undef PROTOCOL

#define PROTOCOL(name, stretch) [stretch] = &roami_protocol_##name,
const struct roam_protocol *const roami_stretches[] = {
#include "protocols.def"
};
const unsigned roami_stretch_count = sizeof(roami_stretches) / sizeof(*roami_stretches);

#define TRANSPORT(name) &roami_transport_##name,
const struct roam_transport *const roami_transports[] = {
#include "transports.def"
	NULL};
