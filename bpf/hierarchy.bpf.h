/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * hierarchy.bpf.h: which cgroup of its caller a call is charged to.
 *
 * A task has one cgroup in the v2 hierarchy and one in each v1 hierarchy.  Where the controllers
 * are on v1, containers are made there and the v2 one may be the root for all of them.  So attach
 * chooses one hierarchy, for good: ids of two must not mix, each counts its own from 1.
 */
#ifndef HIERARCHY_BPF_H
#define HIERARCHY_BPF_H

#include "kernel.bpf.h"
#include "xpumeter.h"

/* What these pins are; one element, written by attach before the first call can come. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct meta);
} meta SEC(".maps");

static __always_inline __u64 chosen_hierarchy(void)
{
	__u32 first = 0;
	struct meta *pins = bpf_map_lookup_elem(&meta, &first);

	return pins ? pins->hierarchy : XPUMETER_CGROUP_V2;
}

/* The cgroup that a set has for one controller; its number differs from kernel to kernel. */
static __always_inline struct cgroup *cgroup_for(struct css_set *set, int controller)
{
	struct cgroup_subsys_state___v1 *state = NULL;
	void *states = (void *)set + bpf_core_field_offset(set->subsys);

	bpf_probe_read_kernel(&state, sizeof(state), states + controller * sizeof(state));
	return BPF_CORE_READ(state, cgroup);
}

/* The current task's cgroup in the chosen hierarchy. */
static __always_inline struct cgroup *callers_cgroup(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	__u64 hierarchy = chosen_hierarchy();

	if (hierarchy == XPUMETER_CGROUP_PIDS &&
	    bpf_core_enum_value_exists(enum cgroup_subsys_id, pids_cgrp_id))
		return cgroup_for(set, bpf_core_enum_value(enum cgroup_subsys_id, pids_cgrp_id));
	if (hierarchy == XPUMETER_CGROUP_MEMORY &&
	    bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return cgroup_for(set, bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id));
	return BPF_CORE_READ(set, dfl_cgrp);
}

/* Its id; on v2, which is nearly everywhere, the helper saves the reads. */
static __always_inline __u64 callers_cgroup_id(void)
{
	if (chosen_hierarchy() == XPUMETER_CGROUP_V2)
		return bpf_get_current_cgroup_id();
	return BPF_CORE_READ(callers_cgroup(), kn, id);
}

/* Whether a cgroup is of the chosen hierarchy. */
static __always_inline int is_chosen(struct cgroup *cgroup)
{
	return BPF_CORE_READ(cgroup, root) == BPF_CORE_READ(callers_cgroup(), root);
}

#endif
