// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a known number of DRM calls and says what it made: the count that xpumeter must equal.
 *
 *   workload [--threads N] [--pause-us US] [--hold-s S] NODE [KIND=N]... [NODE [KIND=N]...]...
 *   workload --speed N NODE
 *   workload --hang NODE
 *
 * KIND is submit, alloc, free, wait or other; N calls of it, in each thread.  The first `other`
 * call asks the driver's name, so there is always one.  Prints a JSON line for each node, kind and
 * outcome, then stays S seconds with the nodes open.  `--speed` makes N calls of kind other and
 * nothing else; `--hang` makes one wait, and stays in it until it is killed.  Exit status: 0, or 64
 * for an order that cannot be carried out, 66 for a node that cannot be opened.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "drm_calls.h"
#include "order.h"

static struct order order;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* The only place that makes a call in an order, so that none is made uncounted. */
static int call(struct node *node, enum kind kind, unsigned long request, void *argument)
{
	unsigned long long begin = now_ns();
	int error = ioctl(node->fd, request, argument) ? errno : 0;

	if (error >= ERRNOS)
		die(70, "errno out of range", node->path);
	node->made[kind][error]++;
	node->time_ns[kind][error] += now_ns() - begin;
	if (order.pause_us)
		usleep(order.pause_us);
	return error;
}

static void ask_version(struct node *node)
{
	struct drm_version version = {.name = node->driver, .name_len = sizeof(node->driver) - 1};

	call(node, OTHER, VERSION, &version);
}

static int is(const struct node *node, const char *driver)
{
	return !strcmp(node->driver, driver);
}

static void allocate(struct node *node)
{
	struct drm_virtgpu_resource_create resource = {.target = 2, /* two-dimensional */
						       .format = 1, /* B8G8R8A8 */
						       .width = 16,
						       .height = 16,
						       .depth = 1,
						       .array_size = 1,
						       .size = 4096};
	struct drm_qxl_alloc qxl = {.size = 4096};
	struct drm_mode_create_dumb dumb = {.height = 16, .width = 16, .bpp = 32};
	uint32_t handle;
	int error;

	if (is(node, "virtio_gpu")) {
		error = call(node, ALLOC, VIRTGPU_RESOURCE_CREATE, &resource);
		handle = resource.bo_handle;
	} else if (is(node, "qxl")) {
		error = call(node, ALLOC, QXL_ALLOC, &qxl);
		handle = qxl.handle;
	} else {
		error = call(node, ALLOC, CREATE_DUMB, &dumb);
		handle = dumb.handle;
	}
	if (!error)
		node->handles[node->alive++] = handle;
}

static void release(struct node *node)
{
	uint32_t handle = node->alive ? node->handles[--node->alive] : 0;
	struct drm_gem_close close = {.handle = handle};
	struct drm_mode_destroy_dumb dumb = {.handle = handle};

	if (is(node, "vgem"))
		call(node, FREE, DESTROY_DUMB, &dumb);
	else
		call(node, FREE, GEM_CLOSE, &close);
}

static void submit(struct node *node)
{
	struct drm_virtgpu_execbuffer virtgpu = {0}; /* ENOSYS without a 3D host behind it */
	struct drm_qxl_execbuffer qxl = {0};	     /* no commands: succeeds */

	if (is(node, "virtio_gpu"))
		call(node, SUBMIT, VIRTGPU_EXECBUFFER, &virtgpu);
	else
		call(node, SUBMIT, QXL_EXECBUFFER, &qxl);
}

static void wait_idle(struct node *node)
{
	struct drm_virtgpu_3d_wait wait = {.handle = node->alive ? node->handles[node->alive - 1]
								 : 0};

	call(node, WAIT, VIRTGPU_WAIT, &wait);
}

/* Interleaves the kinds, so that long orders hold few handles at a time. */
static void carry_out(struct node *node)
{
	unsigned long left[KINDS], any;

	node->fd = open(node->path, O_RDWR | O_CLOEXEC);
	if (node->fd < 0)
		die(66, strerror(errno), node->path);
	memcpy(left, node->ordered, sizeof(left));
	ask_version(node);
	left[OTHER]--;
	if (left[SUBMIT] && !is(node, "virtio_gpu") && !is(node, "qxl"))
		die(64, "this driver has no submit", node->driver);
	if (left[WAIT] && !is(node, "virtio_gpu"))
		die(64, "this driver has no wait", node->driver);
	do {
		if (left[ALLOC] && left[ALLOC]--)
			allocate(node);
		if (left[SUBMIT] && left[SUBMIT]--)
			submit(node);
		if (left[WAIT] && left[WAIT]--)
			wait_idle(node);
		if (left[OTHER] && left[OTHER]--)
			ask_version(node);
		any = left[ALLOC] + left[SUBMIT] + left[WAIT] + left[OTHER];
		/* The last handle alive is for the waits that are still to come. */
		if (left[FREE] && (node->alive > 1 || !any) && left[FREE]--)
			release(node);
	} while (any + left[FREE]);
}

static void *carry_out_all(void *nodes)
{
	for (unsigned long i = 0; i < order.node_count; i++)
		carry_out((struct node *)nodes + i);
	return NULL;
}

static void report(struct node *const *all)
{
	for (unsigned long i = 0; i < order.node_count; i++)
		for (int kind = 0; kind < KINDS; kind++)
			for (int error = 0; error < ERRNOS; error++) {
				unsigned long made = 0;
				unsigned long long time_ns = 0;

				for (unsigned long t = 0; t < order.threads; t++) {
					made += all[t][i].made[kind][error];
					time_ns += all[t][i].time_ns[kind][error];
				}
				if (made)
					printf("{\"node\": \"%s\", \"driver\": \"%s\", \"kind\": "
					       "\"%s\", "
					       "\"error\": \"%s\", \"calls\": %lu, \"time_ns\": "
					       "%llu}\n",
					       order.nodes[i].path, all[0][i].driver,
					       kind_names[kind],
					       error ? strerrorname_np(error) : "", made, time_ns);
			}
	fflush(stdout);
}

static int measure_speed(void)
{
	char name[32];
	struct drm_version version;
	unsigned long long begin;
	int fd = open(order.nodes[0].path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die(66, strerror(errno), order.nodes[0].path);
	begin = now_ns();
	for (unsigned long i = 0; i < order.speed; i++) {
		version = (struct drm_version){.name = name, .name_len = sizeof(name) - 1};
		if (ioctl(fd, VERSION, &version))
			die(70, strerror(errno), order.nodes[0].path);
	}
	printf("{\"node\": \"%s\", \"kind\": \"other\", \"error\": \"\", \"calls\": "
	       "%lu, "
	       "\"time_ns\": %llu}\n",
	       order.nodes[0].path, order.speed, now_ns() - begin);
	return 0;
}

int main(int argc, char **argv)
{
	struct node **all;
	pthread_t *ids;

	read_order(&order, argc, argv);
	if (order.hang)
		hang(order.nodes[0].path);
	if (order.speed)
		return measure_speed();

	all = calloc(order.threads, sizeof(*all));
	ids = calloc(order.threads, sizeof(*ids));
	for (unsigned long t = 0; t < order.threads; t++) {
		all[t] = calloc(order.node_count, sizeof(**all));
		memcpy(all[t], order.nodes, order.node_count * sizeof(**all));
		for (unsigned long i = 0; i < order.node_count; i++)
			all[t][i].handles = calloc(HANDLES, sizeof(uint32_t));
	}
	/* The first thread is this one: a workload of one thread is one task. */
	for (unsigned long t = 1; t < order.threads; t++)
		if (pthread_create(&ids[t], NULL, carry_out_all, all[t]))
			die(70, "no thread", "pthread_create");
	carry_out_all(all[0]);
	for (unsigned long t = 1; t < order.threads; t++)
		pthread_join(ids[t], NULL);
	report(all);
	sleep(order.hold_s);
	return 0;
}
