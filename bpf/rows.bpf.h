/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rows.bpf.h: what is counted, and where a call goes whose tenant has no row to spare.
 */
#ifndef ROWS_BPF_H
#define ROWS_BPF_H

#include "cgroups.bpf.h"

/*
 * row_key -> row, since attach.  Programs add, the agent reads.  One preallocated hash, atomic
 * adds: per CPU, a row and each read of it would take 40 bytes x CPUs.  16384 rows: 64
 * containers x 16 devices x 16 pairs of call number and result; a call without room is in
 * `totals`, refused.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XPUMETER_ROWS);
	__type(key, struct row_key);
	__type(value, struct row);
} rows SEC(".maps");

/* incarnation -> total.  Slot 0: calls on a device without a number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XPUMETER_DEVICES);
	__type(key, __u32);
	__type(value, struct total);
} totals SEC(".maps");

/* call_event: first calls of rows, to wake the agent.  A multiple of 4, 16 and 64 KiB pages. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 262144);
} events SEC(".maps");

/* Not inlined: a type that only inlined code uses is not in the object's BTF, where tests look. */
static __noinline int fill_event(struct call_event *event, const struct row_key *key, __u64 boot_ns,
				 unsigned int cmd)
{
	event->boot_ns = boot_ns;
	event->cgroup_id = key->cgroup_id;
	event->device = key->device;
	event->tgid = bpf_get_current_pid_tgid() >> 32;
	event->cmd = cmd;
	event->error = key->error;
	return 0;
}

static __always_inline void announce(const struct row_key *key, __u64 boot_ns, unsigned int cmd)
{
	struct call_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		LOST(events);
		return;
	}
	fill_event(event, key, boot_ns, cmd);
	bpf_ringbuf_submit(event, 0);
}

/**
 * open_row() - make the row of a key that has none
 * @key: the row; turned to its tenant's overflow row if the tenant has none to spare
 * @time_ns: from entry to return of its first call
 * @cmd: whole request, for the announcement
 *
 * Afterwards there is a row, or there is no room.  A row without a tenant, because its cgroup has
 * no name, is given one when rows are offered (retire.bpf.h).
 */
static __noinline int open_row(struct row_key *key, __u64 time_ns, unsigned int cmd)
{
	__u64 boot_ns = bpf_ktime_get_boot_ns();
	struct row empty = {.first_boot_ns = boot_ns - time_ns};
	struct cgroup_name *cgroup = bpf_map_lookup_elem(&cgroups, &key->cgroup_id);
	struct cgroup_name *payer = NULL;

	if (cgroup) {
		empty.tenant = cgroup->tenant;
		payer = bpf_map_lookup_elem(&cgroups, &empty.tenant);
	}
	if (payer && !take(&payer->tenant_rows, XPUMETER_TENANT_ROWS - XPUMETER_TENANT_OVERFLOW)) {
		LOST(tenant_rows);
		cgroup = payer;
		key->cgroup_id = empty.tenant;
		key->nr = XPUMETER_NR_OVERFLOW;
		if (bpf_map_lookup_elem(&rows, key) ||
		    !take(&payer->tenant_rows, XPUMETER_TENANT_ROWS))
			return 0;
	}
	if (cgroup && payer)
		__sync_fetch_and_add(&cgroup->uses, 1);
	else
		empty.tenant = 0;
	if (!bpf_map_update_elem(&rows, key, &empty, BPF_NOEXIST)) {
		announce(key, boot_ns, cmd);
	} else if (cgroup && payer) {
		__sync_fetch_and_sub(&cgroup->uses, 1);
		__sync_fetch_and_sub(&payer->tenant_rows, 1);
	}
	return 0;
}

/**
 * add() - add one call to its row, then to its device's total
 * @key: the row
 * @time_ns: from entry to return
 * @cmd: whole request, for the announcement of a new row
 *
 * In this order: whoever reads the totals first and the rows second finds every call of the
 * totals in the rows.
 */
static __always_inline void add(struct row_key *key, __u64 time_ns, unsigned int cmd)
{
	struct row *row = bpf_map_lookup_elem(&rows, key);
	struct total *total;
	__u32 device = key->device;
	__u64 before;

	if (!row) {
		open_row(key, time_ns, cmd);
		row = bpf_map_lookup_elem(&rows, key);
	}
	if (row) {
		/* Two adds, no lock: a reader may see a call before its time. */
		__sync_fetch_and_add(&row->time_ns, time_ns);
		__sync_fetch_and_add(&row->calls, 1);
	}
	total = bpf_map_lookup_elem(&totals, &device);
	if (!total)
		return;
	if (!row)
		__sync_fetch_and_add(&total->refused, 1);
	/* The result is used, or arm64 would order nothing (STADD instead of LDADDAL). */
	before = __sync_fetch_and_add(&total->returns, 1);
	asm volatile("" : : "r"(before));
}

#endif
