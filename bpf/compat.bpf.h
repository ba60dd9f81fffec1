/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.bpf.h: every difference between kernels, each with what made it.
 */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

#include "kernel.bpf.h"

/* Linux 6.1, commit 7f203bc89eb6 ("cgroup: Replace cgroup->ancestor_ids[] with ->ancestors[]"). */
struct cgroup___6_1 {
	struct cgroup *ancestors[1]; /* from the root down to the cgroup itself */
} KERNEL;

struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent;
} KERNEL;

struct cgroup___5_15 {
	struct cgroup_subsys_state self; /* the first member: its address is the cgroup's */
} KERNEL;

/* The cgroup at a level, on the way from the root (0) to a cgroup (`deepest`). */
static __always_inline struct cgroup *ancestor_of(struct cgroup *cgroup, int deepest, int level)
{
	struct cgroup___6_1 *newer = (void *)cgroup;
	struct cgroup___5_15 *older = (void *)cgroup;
	struct cgroup *found = NULL;

	if (bpf_core_field_exists(newer->ancestors)) {
		void *ancestors = (void *)cgroup + bpf_core_field_offset(newer->ancestors);

		bpf_probe_read_kernel(&found, sizeof(found), ancestors + level * sizeof(found));
		return found;
	}
	/* What lies deeper than twice the depth is not found, and has no name. */
	for (int up = 0; up < 2 * XPUMETER_DEPTH && older; up++) {
		if (deepest - up == level)
			return (void *)older;
		older = (void *)BPF_CORE_READ(older, self.parent);
	}
	return NULL;
}

#endif
