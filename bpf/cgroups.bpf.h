/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * cgroups.bpf.h: the names of callers, and who pays for them.
 *
 * No tenant gets more than its share of the names, nor of the rows (rows.bpf.h).  What a tenant
 * is, xpumeter.h says; it is settled once, when a name is stored.
 */
#ifndef CGROUPS_BPF_H
#define CGROUPS_BPF_H

#include "compat.bpf.h"
#include "hierarchy.bpf.h"
#include "losses.bpf.h"

/*
 * cgroup id -> name, parent, tenant, dead.  A tree: each caller's cgroup with all above it, stored
 * when its first call enters, so the path is known even if caller and cgroup are gone.  Nothing
 * is below what is not there: a name is stored after its parent's and goes before it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XPUMETER_CGROUPS);
	__type(key, __u64);
	__type(value, struct cgroup_name);
} cgroups SEC(".maps");

/* Take one of a limited number, if there is one left. */
static __always_inline int take(__u32 *taken, __u32 limit)
{
	if (*taken >= limit)
		return 0;
	if (__sync_fetch_and_add(taken, 1) < limit)
		return 1;
	__sync_fetch_and_sub(taken, 1);
	return 0;
}

/* Places in "pod" and the eight hex digits after it where a character may stand, one bit each. */
#define POD_HEX	 (0xff << 3)
#define POD_LAST (1 << 10)
static const __u16 pod_places[256] = {
	['p'] = 1 << 0,		 ['o'] = 1 << 1,	  ['d'] = 1 << 2 | POD_HEX,
	['0' ... '9'] = POD_HEX, ['a' ... 'c'] = POD_HEX, ['e' ... 'f'] = POD_HEX,
	['A' ... 'F'] = POD_HEX,
};

/**
 * names_pod() - whether a name has "pod" in it, directly followed by eight hex digits
 * @name: address of the kernel's string
 *
 * That is kubelet's "pod0f3a5b7c-..." and "kubepods-burstable-pod0f3a5b7c_....slice", and what a
 * runtime with the other driver makes of it.  User space reads the whole uid; here a name that
 * only looks like one is a tenant too many, and no harm.
 *
 * All matches at once, a bit for each place: with a branch for each the verifier takes half a
 * second.  Not static, like the two below, so that it looks once and not for each state that a
 * caller may be in.
 */
__noinline int names_pod(__u64 name)
{
	__u16 ends_here = 0;

	for (int i = 0; i < NAME_MAX; i++) {
		__u8 c;

		if (bpf_probe_read_kernel(&c, 1, (void *)name + i) || !c)
			return 0;
		ends_here = (ends_here << 1 | 1) & pod_places[c];
		if (ends_here & POD_LAST)
			return 1;
	}
	return 0;
}

/**
 * store_cgroup() - store one cgroup whose parent is stored
 * @cgroup: address of the kernel's
 * @id: its id
 * @parent_id: its parent's, 0 at the root
 * @level: how many are above it
 * @caller: id of the cgroup that this is done for: this one, or one below it
 *
 * Return: who pays for the caller's calls: @id, the tenant if it has no name to spare, the caller
 * if the map has no room, 0 if another processor is storing it just now.
 */
__noinline __u64 store_cgroup(__u64 cgroup, __u64 id, __u64 parent_id, int level, __u64 caller)
{
	static const struct cgroup_name unnamed;
	struct cgroup_name *above = bpf_map_lookup_elem(&cgroups, &parent_id);
	struct cgroup_name *stored, *payer = NULL;
	const char *name = BPF_CORE_READ((struct cgroup *)cgroup, kn, name);
	__u64 tenant = id, before;
	__u32 in_pod = 0;
	long error;

	if (above && above->in_pod) {
		tenant = above->tenant;
		in_pod = 1;
	} else if (names_pod((__u64)name)) {
		in_pod = 1;
	} else if (above && level > 2) {
		tenant = above->tenant;
	}
	if (tenant != id) {
		payer = bpf_map_lookup_elem(&cgroups, &tenant);
		if (payer && !take(&payer->tenant_cgroups, XPUMETER_TENANT_CGROUPS - 1)) {
			LOST(tenant_cgroups);
			return tenant;
		}
	}

	/* 304 bytes are more than half a stack: filled in place, the tenant last. */
	error = bpf_map_update_elem(&cgroups, &id, &unnamed, BPF_NOEXIST);
	stored = bpf_map_lookup_elem(&cgroups, &id);
	if (error || !stored) {
		if (payer)
			__sync_fetch_and_sub(&payer->tenant_cgroups, 1);
		if (stored)
			return 0;
		LOST(cgroups);
		return caller;
	}
	bpf_probe_read_kernel_str(stored->name, sizeof(stored->name), name);
	stored->parent = parent_id;
	stored->in_pod = in_pod;
	if (above)
		__sync_fetch_and_add(&above->uses, 1);
	/* The result is used, so that all of the above is seen before it. */
	before = __sync_fetch_and_add(&stored->tenant, tenant);
	asm volatile("" : : "r"(before));
	return id;
}

/**
 * name_cgroup() - store the current task's cgroup and all above it, from the root down
 *
 * Return: who pays for the task's calls, as store_cgroup(); what lies deeper than
 * XPUMETER_DEPTH its tenant pays for.
 */
__noinline __u64 name_cgroup(void)
{
	struct cgroup *caller = callers_cgroup();
	__u64 caller_id = BPF_CORE_READ(caller, kn, id), id = 0, parent_id = 0, payer;
	int deepest = BPF_CORE_READ(caller, level);
	struct cgroup_name *stored = NULL;

	for (int level = 0; level < XPUMETER_DEPTH; level++) {
		struct cgroup *cgroup = ancestor_of(caller, deepest, level);

		if (!cgroup)
			break;
		id = BPF_CORE_READ(cgroup, kn, id);
		stored = bpf_map_lookup_elem(&cgroups, &id);
		if (!stored) {
			payer = store_cgroup((__u64)cgroup, id, parent_id, level, caller_id);
			if (payer != id)
				return payer;
		} else if (!stored->tenant) {
			return 0;
		}
		if (level >= deepest)
			return id;
		parent_id = id;
	}
	LOST(tenant_cgroups);
	stored = bpf_map_lookup_elem(&cgroups, &id);
	return stored ? stored->tenant : 0;
}

/* Whose calls those of a cgroup are, as name_cgroup(), which is not needed if it has a name. */
static __always_inline __u64 payer_of(__u64 cgroup_id)
{
	struct cgroup_name *stored = bpf_map_lookup_elem(&cgroups, &cgroup_id);

	return stored && stored->tenant ? cgroup_id : name_cgroup();
}

/*
 * Tracepoint cgroup_rmdir(struct cgroup *, const char *path), include/trace/events/cgroup.h.  It is
 * that of every hierarchy, and each of v1 has ids of its own, which are others' here.
 */
SEC("raw_tp/cgroup_rmdir")
int on_cgroup_rmdir(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup *cgroup = (void *)ctx->args[0];
	__u64 id = BPF_CORE_READ(cgroup, kn, id);
	struct cgroup_name *name = bpf_map_lookup_elem(&cgroups, &id);

	if (name && is_chosen(cgroup))
		name->dead_ns = bpf_ktime_get_ns();
	return 0;
}

#endif
