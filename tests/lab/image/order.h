// SPDX-License-Identifier: Apache-2.0
/* What the workload is told to do, node by node, and what came of it. */
#ifndef ORDER_H
#define ORDER_H

#include <stdint.h>

enum kind { SUBMIT, ALLOC, FREE, WAIT, OTHER, KINDS };
extern const char *const kind_names[KINDS];

#define NODES	8
#define ERRNOS	134 /* 0 and all of asm-generic/errno.h */
#define HANDLES 65536

/* One thread's part on one node. */
struct node {
	const char *path;
	unsigned long ordered[KINDS];
	unsigned long made[KINDS][ERRNOS];
	unsigned long long time_ns[KINDS][ERRNOS];
	char driver[32];
	int fd;
	uint32_t *handles; /* alive; the last one is used and freed first */
	unsigned long alive;
};

/* Of the command line. */
struct order {
	unsigned long threads, pause_us, hold_s, speed, hang;
	unsigned long node_count;
	struct node nodes[NODES];
};

/* Read the command line; an order that cannot be carried out ends the program.
 */
void read_order(struct order *order, int argc, char **argv);

/* Make one wait on this node, which has to be virtio_gpu's, that does not return. */
_Noreturn void hang(const char *path);

/* Say what is wrong with which, and exit with this status. */
_Noreturn void die(int status, const char *what, const char *which);

#endif
