// SPDX-License-Identifier: GPL-2.0-only
/*
 * xpumeter.bpf.c: counts the calls into DRM and accel drivers, by caller, device, call number
 * and result, and remembers the names of callers and devices.
 *
 * Two programs on drm_ioctl() do it: the entry notes when and for whom, the return counts
 * (threads.bpf.h, rows.bpf.h).  What is attached are stubs; each tail-calls the program in its
 * one slot, so that a later version can take over without the calls asleep in the driver going
 * uncounted.  Everything is read through the iterators at the end, by anyone who may open their
 * pins; what nobody adds to any more goes through those of retire.bpf.h.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "kernel.bpf.h"
#include "threads.bpf.h"
#include "retire.bpf.h"
#include "xpumeter.h"

char LICENSE[] SEC("license") = "GPL";

/* The program behind each stub.  Two arrays: entry and return have different attach types. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} entry_slot SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} return_slot SEC(".maps");

SEC("fentry/drm_ioctl")
int BPF_PROG(on_drm_ioctl, struct file *file, unsigned int cmd)
{
	return note_entry(file, cmd);
}

SEC("fexit/drm_ioctl")
int BPF_PROG(on_drm_ioctl_return, struct file *file, unsigned int cmd, unsigned long arg,
	     long result)
{
	return count_return(file, cmd, result);
}

/* What is attached; a tail call that succeeds does not come back. */
SEC("fentry/drm_ioctl")
int BPF_PROG(entry_stub, struct file *file, unsigned int cmd)
{
	bpf_tail_call(ctx, &entry_slot, 0);
	LOST(empty_slots);
	return 0;
}

SEC("fexit/drm_ioctl")
int BPF_PROG(return_stub, struct file *file, unsigned int cmd, unsigned long arg, long result)
{
	bpf_tail_call(ctx, &return_slot, 0);
	LOST(empty_slots);
	return 0;
}

/* The thread's entry goes with the thread. */
SEC("raw_tp/sched_process_exit")
int on_thread_exit(void *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct thread *thread = bpf_map_lookup_elem(&threads, &id);

	if (!thread)
		return 0;
	if (thread->open)
		count_unseen(thread);
	bpf_map_delete_elem(&threads, &id);
	return 0;
}

/*
 * Readers: each writes the elements of its map as they are, key then value.  At the end the
 * kernel calls once more without an element.
 */
#define READER(map, key_type, value_type)                                                          \
	SEC("iter/bpf_map_elem")                                                                   \
	int read_##map(struct bpf_iter__bpf_map_elem *ctx)                                         \
	{                                                                                          \
		key_type *key = ctx->key;                                                          \
		value_type *value = ctx->value;                                                    \
                                                                                                   \
		if (!key || !value)                                                                \
			return 0;                                                                  \
		bpf_seq_write(ctx->meta->seq, key, sizeof(*key));                                  \
		bpf_seq_write(ctx->meta->seq, value, sizeof(*value));                              \
		return 0;                                                                          \
	}

READER(rows, struct row_key, struct row)
READER(cgroups, __u64, struct cgroup_name)
READER(devices, struct device_key, struct device)
READER(totals, __u32, struct total)
READER(losses, __u32, struct losses)
READER(meta, __u32, struct meta)

/* Those that are in a call. */
SEC("iter/bpf_map_elem")
int read_threads(struct bpf_iter__bpf_map_elem *ctx)
{
	__u64 *id = ctx->key;
	struct thread *thread = ctx->value;

	if (!id || !thread || !thread->open)
		return 0;
	bpf_seq_write(ctx->meta->seq, id, sizeof(*id));
	bpf_seq_write(ctx->meta->seq, thread, sizeof(*thread));
	return 0;
}
