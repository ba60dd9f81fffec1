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
	unsigned long long id;
} KERNEL;

struct cgroup_root;

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root; /* of its hierarchy */
	int level;		  /* how many are above it */
} KERNEL;

struct cgroup_subsys_state___v1 {
	struct cgroup *cgroup;
} KERNEL;

struct css_set {
	struct cgroup_subsys_state___v1 *subsys[1]; /* by cgroup_subsys_id */
	struct cgroup *dfl_cgrp;		    /* of the v2 hierarchy */
} KERNEL;

enum cgroup_subsys_id { memory_cgrp_id, pids_cgrp_id }; /* CO-RE finds the kernel's numbers */

struct task_struct {
	struct css_set *cgroups;
} KERNEL;

struct seq_file;
struct bpf_map;

struct bpf_iter_meta {
	struct seq_file *seq;
	unsigned long long seq_num; /* elements that were shown before */
} KERNEL;

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
} KERNEL;

#pragma clang diagnostic pop

#define NAME_MAX    255	 /* linux/limits.h */
#define ENOTTY	    25	 /* asm-generic/errno-base.h */
#define MAX_ERRNO   4095 /* include/linux/err.h */
#define ENOIOCTLCMD 515	 /* include/linux/errno.h */

#define DRM_IOCTL_BASE 'd' /* uapi/drm/drm.h */

#endif
