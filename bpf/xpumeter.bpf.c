// SPDX-License-Identifier: GPL-2.0-only
/*
 * xpumeter.bpf.c: counts the calls into DRM and accel drivers, by caller, device, call number
 * and result, and remembers the names of callers and devices.
 *
 * Two programs on drm_ioctl() do it: the entry notes when and for whom, the return counts.
 * What is attached are stubs; each tail-calls the program in its one slot, so that a later
 * version can take over without the calls asleep in the driver going uncounted.  Everything
 * is read through the iterators at the end, by anyone who may open their pins.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "kernel.bpf.h"
#include "compat.bpf.h"
#include "xpumeter.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * row_key -> row, since attach.  Programs add, the agent reads.  One preallocated hash, atomic
 * adds: per CPU, a row and each read of it would take 24 bytes x CPUs.  16384 rows: 64
 * containers x 16 devices x 16 pairs of call number and result; a call without room is in
 * `totals`, refused.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XPUMETER_ROWS);
	__type(key, struct row_key);
	__type(value, struct row);
} rows SEC(".maps");

/* thread (tgid << 32 | pid) -> its call, from its first call to its exit.  Programs only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XPUMETER_THREADS);
	__type(key, __u64);
	__type(value, struct thread);
} threads SEC(".maps");

/*
 * cgroup id -> name, parent, dead.  A tree: each caller's cgroup with all above it, stored
 * when its first call enters, so the path is known even if caller and cgroup are gone.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XPUMETER_CGROUPS);
	__type(key, __u64);
	__type(value, struct cgroup_name);
} cgroups SEC(".maps");

/* device_key -> device: every device that was called, with the number that rows call it by. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XPUMETER_DEVICES);
	__type(key, struct device_key);
	__type(value, struct device);
} devices SEC(".maps");

/* incarnation -> total.  Slot 0: calls on a device without a number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, XPUMETER_DEVICES);
	__type(key, __u32);
	__type(value, struct total);
} totals SEC(".maps");

/* What could not be done; one element. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct losses);
} losses SEC(".maps");

/* What these pins are; one element, written by attach before the first call can come. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct meta);
} meta SEC(".maps");

/* The last incarnation number given; one element. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} last_device SEC(".maps");

/* call_event: first calls of rows, to wake the agent.  A multiple of 4, 16 and 64 KiB pages. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 262144);
} events SEC(".maps");

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

#define LOST(what)                                                                                 \
	do {                                                                                       \
		__u32 first = 0;                                                                   \
		struct losses *all = bpf_map_lookup_elem(&losses, &first);                         \
                                                                                                   \
		if (all)                                                                           \
			__sync_fetch_and_add(&all->what, 1);                                       \
	} while (0)

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

/**
 * name_cgroup() - store the current task's cgroup and all above it
 *
 * Stops at the first that is there: then all above it are there too, or were refused.  A
 * chain that does not reach the root is for user space to notice.  Not inlined: the verifier
 * walks the loop once, not once for each caller.
 */
static __noinline int name_cgroup(void)
{
	static const struct cgroup_name unnamed;
	struct task_struct *task = (void *)bpf_get_current_task();
	struct kernfs_node *kn = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn);

	for (int depth = 0; kn && depth < XPUMETER_DEPTH; depth++) {
		struct kernfs_node *parent = parent_of(kn);
		__u64 id = BPF_CORE_READ(kn, id);
		struct cgroup_name *cgroup;

		if (bpf_map_lookup_elem(&cgroups, &id))
			break;
		/* 272 bytes are more than half a stack: filled in place, the parent last. */
		bpf_map_update_elem(&cgroups, &id, &unnamed, BPF_NOEXIST);
		cgroup = bpf_map_lookup_elem(&cgroups, &id);
		if (!cgroup) {
			LOST(cgroups);
			break;
		}
		bpf_probe_read_kernel_str(cgroup->name, sizeof(cgroup->name),
					  BPF_CORE_READ(kn, name));
		cgroup->parent = parent ? BPF_CORE_READ(parent, id) : 0;
		kn = parent;
	}
	return 0;
}

static __always_inline void name_cgroup_once(__u64 cgroup_id)
{
	if (!bpf_map_lookup_elem(&cgroups, &cgroup_id))
		name_cgroup();
}

/**
 * number_device() - give a device that was never called its incarnation number
 *
 * Two callers may be here at once: the first to store wins, and the other's number is lost,
 * which is cheaper than a lock.
 *
 * Return: the number, 0 if there is none left.
 */
static __noinline __u32 number_device(struct drm_minor *minor, __u64 inode, __u32 node)
{
	struct device___kernel *parent = BPF_CORE_READ(minor, kdev, parent);
	struct device_key key = {.parent = (__u64)parent, .inode = inode};
	struct device device = {.node = node};
	struct device *stored;
	__u32 first = 0, *last = bpf_map_lookup_elem(&last_device, &first);

	if (!last)
		return 0;
	if (*last < XPUMETER_DEVICES - 1)
		device.incarnation = __sync_fetch_and_add(last, 1) + 1;
	if (!device.incarnation || device.incarnation >= XPUMETER_DEVICES) {
		LOST(devices);
		return 0;
	}
	bpf_probe_read_kernel_str(device.driver, sizeof(device.driver),
				  BPF_CORE_READ(minor, dev, driver, name));
	bpf_probe_read_kernel_str(device.name, sizeof(device.name),
				  BPF_CORE_READ(parent, kobj.name));
	bpf_map_update_elem(&devices, &key, &device, BPF_NOEXIST);
	stored = bpf_map_lookup_elem(&devices, &key);
	if (stored)
		return stored->incarnation;
	LOST(devices);
	return 0;
}

/*
 * The incarnation number of the device behind a file of a DRM or accel node.  By the parent of
 * the node, not of the drm_device: the minors of amdgpu's partitions lead to their card's
 * drm_device (Linux 6.5, amdgpu_xcp_dev_alloc(): "Redirect all IOCTLs to the primary device").
 */
static __always_inline __u32 device_of(struct file *file)
{
	struct drm_file *drm_file = BPF_CORE_READ(file, private_data);
	struct drm_minor *minor = BPF_CORE_READ(drm_file, minor);
	struct device_key key = {
		.parent = (__u64)BPF_CORE_READ(minor, kdev, parent),
		.inode = BPF_CORE_READ(minor, dev, anon_inode, i_ino),
	};
	struct device *device = bpf_map_lookup_elem(&devices, &key);

	if (device)
		return device->incarnation;
	return number_device(minor, key.inode, BPF_CORE_READ(file, f_inode, i_rdev));
}

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
 * add() - add one call to its row, then to its device's total
 * @key: the row
 * @time_ns: from entry to return
 * @cmd: whole request, for the announcement of a new row
 *
 * In this order: whoever reads the totals first and the rows second finds every call of the
 * totals in the rows.
 */
static __always_inline void add(const struct row_key *key, __u64 time_ns, unsigned int cmd)
{
	struct row *row = bpf_map_lookup_elem(&rows, key);
	struct total *total;
	__u32 device = key->device;
	__u64 before;

	if (!row) {
		__u64 boot_ns = bpf_ktime_get_boot_ns();
		struct row empty = {.first_boot_ns = boot_ns - time_ns};
		long taken = bpf_map_update_elem(&rows, key, &empty, BPF_NOEXIST);

		row = bpf_map_lookup_elem(&rows, key);
		if (row && !taken)
			announce(key, boot_ns, cmd);
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

/* An open entry that the thread's next call or its exit finds: nobody saw the return. */
static __always_inline void count_unseen(struct thread *thread)
{
	struct row_key key = {
		.cgroup_id = thread->cgroup_id,
		.device = thread->device,
		.nr = thread->nr,
		.error = XPUMETER_UNSEEN,
	};

	thread->open = 0;
	LOST(returns);
	add(&key, 0, 0);
}

static __always_inline int note_entry(struct file *file, unsigned int cmd)
{
	static const struct thread idle;
	__u64 id = bpf_get_current_pid_tgid(), cgroup_id = bpf_get_current_cgroup_id();
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
	if (thread->cgroup_id != cgroup_id) {
		name_cgroup_once(cgroup_id);
		thread->cgroup_id = cgroup_id;
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

	if (thread && thread->open && thread->nr == key.nr) {
		/* The cgroup that entered pays, whatever became of the task since. */
		key.cgroup_id = thread->cgroup_id;
		key.device = thread->device;
		time_ns = bpf_ktime_get_ns() - thread->start_ns;
		thread->open = 0;
	} else {
		LOST(entries);
		key.cgroup_id = bpf_get_current_cgroup_id();
		key.device = device_of(file);
		name_cgroup_once(key.cgroup_id);
	}
	add(&key, time_ns, cmd);
	return 0;
}

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

/* Tracepoint cgroup_rmdir(struct cgroup *, const char *path), include/trace/events/cgroup.h. */
SEC("raw_tp/cgroup_rmdir")
int on_cgroup_rmdir(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup *cgroup = (void *)ctx->args[0];
	__u64 id = BPF_CORE_READ(cgroup, kn, id);
	struct cgroup_name *name = bpf_map_lookup_elem(&cgroups, &id);

	if (name)
		name->dead = 1;
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
READER(threads, __u64, struct thread)
READER(losses, __u32, struct losses)
READER(meta, __u32, struct meta)
