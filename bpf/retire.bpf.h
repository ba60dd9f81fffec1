/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * retire.bpf.h: what dead cgroups left is handed over, then deleted.  For the agent's user alone.
 *
 * A deleted element is used again at once, so whoever still adds to it adds to another key's row.
 * Nobody does, for a row that goes here:
 *   - its cgroup is dead, so no task is in it that could enter a call, and none has been for
 *     XPUMETER_GRACE_NS: a program that had found cgroup or row before that is over (xpumeter.h);
 *   - a sweep of all threads that began after that saw none in a call for the cgroup or its tenant,
 *     and a call stays open until it is in its row.
 * A sweep can overlook a thread if a neighbour in its bucket exits in the same nanoseconds.  What
 * comes of that is a late call that finds its row gone, looked up anew when it returns: it makes
 * a row of its own, with a later first call, and is `unknown_cgroup` if the name is gone too.
 *
 * Offering comes first, so that the agent can keep what it read before it is gone: only a row
 * that nobody added to since is deleted.
 */
#ifndef RETIRE_BPF_H
#define RETIRE_BPF_H

#include "rows.bpf.h"
#include "threads.bpf.h"

/* When the last complete sweep began, CLOCK_MONOTONIC; one element. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} last_sweep SEC(".maps");

static long note_busy(struct bpf_map *map, __u64 *id, struct thread *thread, void *unused)
{
	__u64 cgroup_id = thread->cgroup_id, tenant;
	struct cgroup_name *cgroup;

	if (!thread->open)
		return 0;
	cgroup = bpf_map_lookup_elem(&cgroups, &cgroup_id);
	if (!cgroup)
		return 0;
	cgroup->busy_ns = bpf_ktime_get_ns();
	/* Its call may yet go to the tenant's overflow row. */
	tenant = cgroup->tenant;
	cgroup = bpf_map_lookup_elem(&cgroups, &tenant);
	if (cgroup)
		cgroup->busy_ns = bpf_ktime_get_ns();
	return 0;
}

/* Note whose calls are open: in one run, so that no two readers see half of each other's. */
static __noinline int sweep(void)
{
	__u64 began_ns = bpf_ktime_get_ns(), *last;
	__u32 first = 0;

	bpf_for_each_map_elem(&threads, note_busy, NULL, 0);
	last = bpf_map_lookup_elem(&last_sweep, &first);
	if (last && *last < began_ns)
		*last = began_ns;
	return 0;
}

/* Whether nobody adds to what a cgroup has, nor ever will. */
static __always_inline int is_over(const struct cgroup_name *cgroup)
{
	__u32 first = 0;
	__u64 *swept_ns = bpf_map_lookup_elem(&last_sweep, &first);

	return swept_ns && cgroup->dead_ns && cgroup->dead_ns + XPUMETER_GRACE_NS < *swept_ns &&
	       cgroup->busy_ns < *swept_ns;
}

/* A row that was made before its cgroup had a name; there may be two readers. */
static __always_inline void adopt(struct row *row, struct cgroup_name *cgroup)
{
	__u64 tenant = cgroup->tenant;
	struct cgroup_name *payer = bpf_map_lookup_elem(&cgroups, &tenant);

	if (!payer || __sync_val_compare_and_swap(&row->tenant, 0, tenant))
		return;
	__sync_fetch_and_add(&cgroup->uses, 1);
	__sync_fetch_and_add(&payer->tenant_rows, 1);
}

/* All rows; those that may go are offered. */
SEC("iter/bpf_map_elem")
int offer_rows(struct bpf_iter__bpf_map_elem *ctx)
{
	struct row_key key, *found = ctx->key;
	struct cgroup_name *cgroup;
	struct row row, *stored;

	if (!ctx->meta->seq_num)
		sweep();
	if (!found)
		return 0;
	key = *found;
	stored = bpf_map_lookup_elem(&rows, &key);
	if (!stored)
		return 0;
	cgroup = bpf_map_lookup_elem(&cgroups, &key.cgroup_id);
	if (cgroup && !stored->tenant)
		adopt(stored, cgroup);
	row = *stored;
	row.offered = cgroup && is_over(cgroup) ? row.calls : 0;
	stored->offered = row.offered;
	bpf_seq_write(ctx->meta->seq, &key, sizeof(key));
	bpf_seq_write(ctx->meta->seq, &row, sizeof(row));
	return 0;
}

/* Deletes the rows that were offered and not added to since, and writes them. */
SEC("iter/bpf_map_elem")
int retire_rows(struct bpf_iter__bpf_map_elem *ctx)
{
	struct row_key key, *found = ctx->key;
	struct cgroup_name *cgroup;
	struct row row, *stored;

	if (!ctx->meta->seq_num)
		sweep();
	if (!found)
		return 0;
	key = *found;
	stored = bpf_map_lookup_elem(&rows, &key);
	cgroup = bpf_map_lookup_elem(&cgroups, &key.cgroup_id);
	if (!stored || !cgroup || !is_over(cgroup))
		return 0;
	row = *stored;
	if (!row.offered || row.offered != row.calls)
		return 0;
	/* Written first: where the buffer is full, the kernel comes again with the same row. */
	if (bpf_seq_write(ctx->meta->seq, &key, sizeof(key)) ||
	    bpf_seq_write(ctx->meta->seq, &row, sizeof(row)) || bpf_map_delete_elem(&rows, &key))
		return 0;
	if (!row.tenant)
		return 0;
	__sync_fetch_and_sub(&cgroup->uses, 1);
	cgroup = bpf_map_lookup_elem(&cgroups, &row.tenant);
	if (cgroup)
		__sync_fetch_and_sub(&cgroup->tenant_rows, 1);
	return 0;
}

/* Deletes the names that no row and no other name needs, and writes them.  Parents go later. */
SEC("iter/bpf_map_elem")
int retire_cgroups(struct bpf_iter__bpf_map_elem *ctx)
{
	__u64 id, parent, tenant, *found = ctx->key;
	struct cgroup_name *cgroup;

	if (!found)
		return 0;
	id = *found;
	cgroup = bpf_map_lookup_elem(&cgroups, &id);
	if (!cgroup || cgroup->uses || !is_over(cgroup))
		return 0;
	parent = cgroup->parent;
	tenant = cgroup->tenant;
	if (bpf_seq_write(ctx->meta->seq, &id, sizeof(id)) ||
	    bpf_seq_write(ctx->meta->seq, cgroup, sizeof(*cgroup)) ||
	    bpf_map_delete_elem(&cgroups, &id))
		return 0;
	cgroup = bpf_map_lookup_elem(&cgroups, &parent);
	if (cgroup)
		__sync_fetch_and_sub(&cgroup->uses, 1);
	cgroup = bpf_map_lookup_elem(&cgroups, &tenant);
	if (cgroup && tenant != id)
		__sync_fetch_and_sub(&cgroup->tenant_cgroups, 1);
	return 0;
}

#endif
