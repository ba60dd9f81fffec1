/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * xpumeter.h: the bytes that the BPF programs and the agent share.
 *
 * Written by bpf/xpumeter.bpf.c, read by receiver/xpumeter/source/wire.py, which mirrors every
 * struct here; tests/unit/test_layout.py compares the two through the object's BTF.  Builtin
 * types of fixed width only, no holes (-Wpadded -Werror).  A change of any struct is a new
 * XPUMETER_LAYOUT: an agent does not read pins of another layout.
 */
#ifndef XPUMETER_H
#define XPUMETER_H

#define XPUMETER_LAYOUT 2

#define XPUMETER_ROWS	 16384
#define XPUMETER_THREADS 16384
#define XPUMETER_CGROUPS 16384
#define XPUMETER_DEVICES 256 /* incarnations in all; 0 stands for a device that got no number */
#define XPUMETER_DEPTH	 32  /* cgroups named from a caller's up to the root */

/*
 * What one tenant may hold: an eighth, so that no single one takes the others' room.  Of its rows
 * the last 256 are for calls beyond the budget: 16 devices x 16 results.
 */
#define XPUMETER_TENANT_CGROUPS	 (XPUMETER_CGROUPS / 8)
#define XPUMETER_TENANT_ROWS	 (XPUMETER_ROWS / 8)
#define XPUMETER_TENANT_OVERFLOW 256

/*
 * From a cgroup's death until its rows and its name may go.  A program that found one of these
 * while the cgroup was alive adds to it some hundred instructions later, and cannot sleep in
 * between: only preemption, or a virtual processor that is not run, makes that longer.  Seconds
 * are far beyond either.  A call that lasts is no matter of this time: it is seen to be open.
 */
#define XPUMETER_GRACE_NS 5000000000ull

#define XPUMETER_NR_FOREIGN  0x100  /* not of DRM's ioctl type ('d') */
#define XPUMETER_NR_OVERFLOW 0x101  /* beyond the tenant's budget of rows: the number is lost */
#define XPUMETER_UNSEEN	     0xffff /* result of a call whose return nobody saw */

/* Hierarchies of cgroups; V1: one that names nobody. */
#define XPUMETER_CGROUP_V2     0
#define XPUMETER_CGROUP_PIDS   1
#define XPUMETER_CGROUP_MEMORY 2
#define XPUMETER_CGROUP_V1     3

/* Key of one row: who called what, on which device, with which result. */
struct row_key {
	unsigned long long cgroup_id; /* inode number of the caller's cgroup, at entry */
	unsigned int device;	      /* incarnation number: not reused, unlike a node's number */
	unsigned short nr;	      /* _IOC_NR(cmd): 0..255; or XPUMETER_NR_... */
	unsigned short error;	      /* 0, or the result negated: errno, or restart (512..516) */
};

/* A row: what all returns with one key add up to. */
struct row {
	unsigned long long calls;
	unsigned long long time_ns;	  /* from entry to return; CLOCK_MONOTONIC */
	unsigned long long first_boot_ns; /* when the first of them entered; CLOCK_BOOTTIME */
	unsigned long long offered;	  /* calls when it was offered for retiring; else 0 */
	unsigned long long tenant;	  /* cgroup id of who pays for its room; 0: nobody yet */
};

/* The call that a thread is in, or its last one.  Deleted when the thread exits. */
struct thread {
	unsigned long long start_ns;  /* entry; CLOCK_MONOTONIC */
	unsigned long long cgroup_id; /* whose call it is: the thread's own, or its tenant's */
	unsigned long long home;      /* cgroup that the thread was in, if cgroup_id is settled */
	unsigned int device;
	unsigned short nr;
	unsigned short open; /* 1: entered, and not yet counted in its row */
};

/*
 * One cgroup, by its id: enough to spell the path of a caller that is gone, and to know when it
 * may be forgotten.  Its tenant is the outermost pod around it; outside pods the cgroup at the
 * second level (/system.slice/x.service, /docker/ID); above these each is its own.
 */
struct cgroup_name {
	unsigned long long parent;   /* id; 0 above the root */
	unsigned long long tenant;   /* id; 0 while the rest is being filled in */
	unsigned long long dead_ns;  /* when it was removed, CLOCK_MONOTONIC; 0: it is there */
	unsigned long long busy_ns;  /* when a call of it was last seen open; CLOCK_MONOTONIC */
	unsigned int uses;	     /* rows that name it, and cgroups stored below it */
	unsigned int tenant_rows;    /* of a tenant: rows it pays for */
	unsigned int tenant_cgroups; /* of a tenant: names it pays for, without its own */
	unsigned int in_pod;	     /* 1: its tenant is a pod */
	char name[256];		     /* NAME_MAX and its NUL; empty at the root */
};

/*
 * Key of one incarnation of a device.  The address alone may come again; with the inode number
 * of the anonymous inode, new for each struct drm_device, it does not.
 */
struct device_key {
	unsigned long long parent; /* the struct device that its nodes are below */
	unsigned long long inode;
};

struct device {
	unsigned int incarnation; /* 1..XPUMETER_DEVICES - 1 */
	unsigned int node; /* the kernel's dev_t of the first node used: major << 20 | minor */
	char driver[32];   /* DRM name of the driver */
	char name[64];	   /* of the parent device: PCI address, platform name */
};

/* What one device was asked in all, each part counted apart from the rows. */
struct total {
	unsigned long long returns; /* every return, in a row or not; added to after the row */
	unsigned long long refused; /* of these, without room for a row */
	unsigned long long lapsed;  /* of these, after the lease ran out */
};

/* What the programs could not do, since attach. */
struct losses {
	unsigned long long events;	/* ring records dropped: a later name, no lost count */
	unsigned long long threads;	/* entries without room: a call without its time */
	unsigned long long cgroups;	/* names without room */
	unsigned long long devices;	/* devices without a number */
	unsigned long long entries;	/* returns whose entry was not seen */
	unsigned long long returns;	/* entries whose return was not seen; counted as UNSEEN */
	unsigned long long empty_slots; /* calls that met a stub without a program behind it */
	unsigned long long tenant_rows; /* calls beyond a tenant's rows: in its overflow row */
	unsigned long long tenant_cgroups; /* names beyond a tenant's: charged to the tenant */
};

/* Ring record: the first call of a row. */
struct call_event {
	unsigned long long boot_ns; /* when it was announced; CLOCK_BOOTTIME */
	unsigned long long cgroup_id;
	unsigned int device;
	unsigned int tgid;
	unsigned int cmd; /* whole request */
	unsigned int error;
};

/* What these pins are; written once, by attach. */
struct meta {
	unsigned int layout;		     /* XPUMETER_LAYOUT */
	unsigned short hook;		     /* place in the registry of hooks */
	unsigned short hierarchy;	     /* XPUMETER_CGROUP_...: what ids of cgroups are of */
	unsigned long long attached_boot_ns; /* CLOCK_BOOTTIME */
	unsigned long long lease_ns;	     /* how long to count without a reader; 0: for ever */
	unsigned char attach_id[16];	     /* random */
	unsigned char object_sha256[32];
};

#endif
