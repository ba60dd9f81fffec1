// SPDX-License-Identifier: Apache-2.0
/*
 * The DRM calls that the workload makes: structs and numbers as in the kernel's
 * include/uapi/drm, which Debian does not ship with its other kernel headers.
 */
#ifndef DRM_CALLS_H
#define DRM_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct drm_version {
	int major, minor, patchlevel;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};
struct drm_gem_close {
	uint32_t handle, pad;
};
struct drm_mode_create_dumb {
	uint32_t height, width, bpp, flags, handle, pitch;
	uint64_t size;
};
struct drm_mode_destroy_dumb {
	uint32_t handle;
};
struct drm_virtgpu_execbuffer {
	uint32_t flags, size;
	uint64_t command, bo_handles;
	uint32_t num_bo_handles;
	int32_t fence_fd;
};
struct drm_virtgpu_resource_create {
	uint32_t target, format, bind, width, height, depth, array_size, last_level, nr_samples,
		flags, bo_handle, res_handle, size, stride;
};
struct drm_virtgpu_3d_wait {
	uint32_t handle, flags;
};
struct drm_qxl_alloc {
	uint32_t size, handle;
};
struct drm_qxl_execbuffer {
	uint32_t flags, commands_num;
	uint64_t commands;
};

#define VERSION			_IOWR('d', 0x00, struct drm_version)
#define GEM_CLOSE		_IOW('d', 0x09, struct drm_gem_close)
#define CREATE_DUMB		_IOWR('d', 0xb2, struct drm_mode_create_dumb)
#define DESTROY_DUMB		_IOWR('d', 0xb4, struct drm_mode_destroy_dumb)
#define VIRTGPU_EXECBUFFER	_IOWR('d', 0x42, struct drm_virtgpu_execbuffer)
#define VIRTGPU_RESOURCE_CREATE _IOWR('d', 0x44, struct drm_virtgpu_resource_create)
#define VIRTGPU_WAIT		_IOWR('d', 0x48, struct drm_virtgpu_3d_wait)
#define QXL_ALLOC		_IOWR('d', 0x40, struct drm_qxl_alloc)
#define QXL_EXECBUFFER		_IOW('d', 0x42, struct drm_qxl_execbuffer)

#endif
