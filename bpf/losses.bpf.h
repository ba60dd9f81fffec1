/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * losses.bpf.h: what could not be done is counted.
 */
#ifndef LOSSES_BPF_H
#define LOSSES_BPF_H

#include "xpumeter.h"

/* What could not be done; one element. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct losses);
} losses SEC(".maps");

#define LOST(what)                                                                                 \
	do {                                                                                       \
		__u32 first = 0;                                                                   \
		struct losses *all = bpf_map_lookup_elem(&losses, &first);                         \
                                                                                                   \
		if (all)                                                                           \
			__sync_fetch_and_add(&all->what, 1);                                       \
	} while (0)

#endif
