// SPDX-License-Identifier: Apache-2.0
/*
 * Makes many cgroups that look like containers, each with a process that calls, and removes them.
 *
 *   crowd FIRST COUNT NODE
 *
 * Number N becomes /kubepods/besteffort/pod<N / 10 as a uid>/<N as an id>, and its process asks the
 * driver's name N % 7 + 1 times.  A pod goes with its tenth.  Nothing is printed: who knows FIRST
 * and COUNT knows all.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drm_calls.h"

#define PODS "/sys/fs/cgroup/kubepods/besteffort"

static void fail(const char *what)
{
	fprintf(stderr, "crowd: %s: %s\n", what, strerror(errno));
	exit(70);
}

static void make(const char *folder)
{
	if (mkdir(folder, 0755) && errno != EEXIST)
		fail(folder);
}

static void call(const char *cgroup, const char *node, long calls)
{
	char procs[300], name[32];
	struct drm_version version;
	int fd;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", cgroup);
	fd = open(procs, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		fail(procs);
	fd = open(node, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail(node);
	while (calls--) {
		version = (struct drm_version){.name = name, .name_len = sizeof(name) - 1};
		if (ioctl(fd, VERSION, &version))
			fail(node);
	}
	_exit(0);
}

static void live(long number, const char *node)
{
	char pod[128], cgroup[256];
	int status;
	pid_t child;

	snprintf(pod, sizeof(pod), PODS "/pod00000000-0000-0000-0000-%012ld", number / 10);
	snprintf(cgroup, sizeof(cgroup), "%s/%064ld", pod, number);
	make(pod);
	make(cgroup);
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child)
		call(cgroup, node, number % 7 + 1);
	if (waitpid(child, &status, 0) != child || status)
		exit(70);
	if (rmdir(cgroup))
		fail(cgroup);
	if (number % 10 == 9 && rmdir(pod))
		fail(pod);
}

int main(int argc, char **argv)
{
	long first, count;

	if (argc != 4)
		return 64;
	first = atol(argv[1]);
	count = atol(argv[2]);
	make("/sys/fs/cgroup/kubepods");
	make(PODS);
	for (long number = first; number < first + count; number++)
		live(number, argv[3]);
	return 0;
}
