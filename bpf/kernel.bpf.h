/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kernel.bpf.h: the few kernel types and numbers that the programs use.
 *
 * No vmlinux.h: only the members that are read are declared, and CO-RE finds their offsets in
 * the running kernel's BTF.  What differs between kernels is in compat.bpf.h.
 */
#ifndef KERNEL_BPF_H
#define KERNEL_BPF_H

#define KERNEL __attribute__((preserve_access_index))

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpadded" /* not our layout */

struct inode {
	unsigned int i_rdev;
	unsigned long i_ino;
} KERNEL;

struct file {
	struct inode *f_inode;
	void *private_data; /* struct drm_file, for a file of a DRM or accel node */
} KERNEL;

struct kobject {
	const char *name;
} KERNEL;

struct device___kernel {
	struct kobject kobj;
	struct device___kernel *parent;
} KERNEL;

struct drm_driver {
	char *name;
} KERNEL;

struct drm_device {
	const struct drm_driver *driver;
	struct inode *anon_inode; /* one of its own, for as long as it lives */
} KERNEL;

struct drm_minor {
	struct drm_device *dev;
	struct device___kernel *kdev; /* the node in sysfs, below the device that it is of */
} KERNEL;

struct drm_file {
	struct drm_minor *minor;
} KERNEL;

struct kernfs_node {
	const char *name;
	struct kernfs_node *parent;
	unsigned long long id;
} KERNEL;

struct cgroup {
	struct kernfs_node *kn;
} KERNEL;

struct css_set {
	struct cgroup *dfl_cgrp;
} KERNEL;

struct task_struct {
	struct css_set *cgroups;
} KERNEL;

struct seq_file;
struct bpf_map;

struct bpf_iter_meta {
	struct seq_file *seq;
} KERNEL;

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
} KERNEL;

#pragma clang diagnostic pop

#define ENOTTY	    25	 /* asm-generic/errno-base.h */
#define MAX_ERRNO   4095 /* include/linux/err.h */
#define ENOIOCTLCMD 515	 /* include/linux/errno.h */

#define DRM_IOCTL_BASE 'd' /* uapi/drm/drm.h */

#endif
