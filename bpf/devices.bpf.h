/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * devices.bpf.h: every device that was called, with a number and its names.
 */
#ifndef DEVICES_BPF_H
#define DEVICES_BPF_H

#include "kernel.bpf.h"
#include "losses.bpf.h"

/* device_key -> device: every device that was called, with the number that rows call it by. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, XPUMETER_DEVICES);
	__type(key, struct device_key);
	__type(value, struct device);
} devices SEC(".maps");

/* The last incarnation number given; one element. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} last_device SEC(".maps");

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

#endif
