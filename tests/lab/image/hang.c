// SPDX-License-Identifier: Apache-2.0
/* A wait that never returns, as if the device were hung: on any driver, until the task is killed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <string.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "drm_calls.h"
#include "order.h"

/*
 * The argument lies in a page that nobody fills in, so the kernel sleeps where it copies it.  Takes
 * CAP_SYS_PTRACE, or vm.unprivileged_userfaultfd=1.
 */
void hang(const char *path)
{
	long size = sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register missing = {.range = {.start = (uintptr_t)page, .len = size},
					  .mode = UFFDIO_REGISTER_MODE_MISSING};
	int faults = syscall(SYS_userfaultfd, O_CLOEXEC), fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		die(66, strerror(errno), path);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) ||
	    ioctl(faults, UFFDIO_REGISTER, &missing))
		die(70, strerror(errno), "userfaultfd");
	ioctl(fd, VIRTGPU_WAIT, page);
	die(70, "it returned", path);
}
