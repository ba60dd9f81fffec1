/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * threads.bpf.h: the call that each thread is in, from its entry until it is counted.
 */
#ifndef THREADS_BPF_H
#define THREADS_BPF_H

#include "devices.bpf.h"
#include "rows.bpf.h"

/* thread (tgid << 32 | pid) -> its call, from its first call to its exit.  Programs only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XPUMETER_THREADS);
	__type(key, __u64);
	__type(value, struct thread);
} threads SEC(".maps");

/* _IOC_NR and _IOC_TYPE of uapi/asm-generic/ioctl.h, alike on x86, arm and riscv. */
static __always_inline __u16 nr_of(unsigned int cmd)
{
	return ((cmd >> 8) & 0xff) == DRM_IOCTL_BASE ? cmd & 0xff : XPUMETER_NR_FOREIGN;
}

/* 0, or the errno that the result carries.  vfs_ioctl() turns 515 into ENOTTY after us. */
static __always_inline __u16 error_of(long result)
{
	if (result >= 0 || result < -MAX_ERRNO)
		return 0;
	return result == -ENOIOCTLCMD ? ENOTTY : -result;
}

/* An open entry that the thread's next call or its exit finds: nobody saw the return. */
static __always_inline void count_unseen(struct thread *thread)
{
	struct row_key key = {
		.cgroup_id = thread->cgroup_id,
		.device = thread->device,
		.nr = thread->nr,
		.error = XPUMETER_UNSEEN,
	};

	LOST(returns);
	add(&key, 0, 0);
	thread->open = 0;
}

static __always_inline int note_entry(struct file *file, unsigned int cmd)
{
	static const struct thread idle;
	__u64 id = bpf_get_current_pid_tgid(), cgroup_id = callers_cgroup_id();
	struct thread *thread = bpf_map_lookup_elem(&threads, &id);

	if (!thread) {
		bpf_map_update_elem(&threads, &id, &idle, BPF_NOEXIST);
		thread = bpf_map_lookup_elem(&threads, &id);
		if (!thread) {
			LOST(threads);
			return 0;
		}
	}
	if (thread->open)
		count_unseen(thread);
	if (thread->home != cgroup_id) {
		__u64 payer = payer_of(cgroup_id);

		thread->cgroup_id = payer ?: cgroup_id;
		thread->home = payer ? cgroup_id : 0;
	}
	thread->device = device_of(file);
	thread->nr = nr_of(cmd);
	thread->start_ns = bpf_ktime_get_ns();
	thread->open = 1;
	return 0;
}

/*
 * A return counts from its own arguments, always: an entry that was not seen costs the call
 * its time, not its place.  Work that the driver queued runs elsewhere and is not seen here.
 */
static __always_inline int count_return(struct file *file, unsigned int cmd, long result)
{
	__u64 id = bpf_get_current_pid_tgid(), time_ns = 0;
	struct thread *thread = bpf_map_lookup_elem(&threads, &id);
	struct row_key key = {.nr = nr_of(cmd), .error = error_of(result)};
	int entered = thread && thread->open && thread->nr == key.nr;

	if (entered) {
		/* The cgroup that entered pays, whatever became of the task since. */
		key.cgroup_id = thread->cgroup_id;
		key.device = thread->device;
		time_ns = bpf_ktime_get_ns() - thread->start_ns;
	} else {
		__u64 cgroup_id = callers_cgroup_id(), payer = payer_of(cgroup_id);

		LOST(entries);
		key.cgroup_id = payer ?: cgroup_id;
		key.device = device_of(file);
	}
	add(&key, time_ns, cmd);
	/* Last: a call that is not open adds to no row, which may then be retired. */
	if (entered)
		thread->open = 0;
	return 0;
}

#endif
