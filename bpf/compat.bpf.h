/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * compat.bpf.h: every difference between kernels, each with what made it.
 */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

#include "kernel.bpf.h"

/* Linux 6.15 renamed kernfs_node.parent to __parent (it became RCU-protected). */
struct kernfs_node___615 {
	struct kernfs_node___615 *__parent;
} KERNEL;

static __always_inline struct kernfs_node *parent_of(struct kernfs_node *kn)
{
	if (bpf_core_field_exists(kn->parent))
		return BPF_CORE_READ(kn, parent);
	return (void *)BPF_CORE_READ((struct kernfs_node___615 *)kn, __parent);
}

#endif
