#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# First program of the guest, in the initramfs: makes the root of shares and goes there.
#
# Shares: `cache` is the host's cache, read-only (the tree `lab_root` in it becomes /, under a
# tmpfs); `work` is this VM's own folder.  X=Y words of the kernel's command line are variables.
# Mounts are made here: under emulation a busybox command costs a tenth of any other.
# shellcheck disable=SC2154 # those variables
B=/bin/busybox
P=trans=virtio,version=9p2000.L,msize=1048576
insmod_all() {
	while read -r name; do $B insmod "/mods/$name.ko" || echo "lab: $name not loaded"; done < "/mods/$1"
}
$B mount -t proc proc /proc
$B mount -t devtmpfs dev /dev
$B mount -t sysfs sys /sys
insmod_all first
$B mount -t tmpfs -o size=80%,mode=755 t /t
$B mkdir -p /t/cache /t/upper /t/scratch /t/new
$B mount -t 9p -o $P,cache=loose,ro cache /t/cache || $B poweroff -f
$B mount -t overlay -o "lowerdir=/t/cache/$lab_root,upperdir=/t/upper,workdir=/t/scratch" o /t/new ||
	$B poweroff -f
R=/t/new
$B mount -t 9p -o $P,cache=none,rw work $R/vm || $B poweroff -f
$B mount --move /t/cache $R/cache
$B mount --bind "$R/cache/$lab_guest" $R/opt/lab
$B mount --bind "$R/cache/$lab_site" $R/opt/site
$B mkdir -p $R/lib/modules
$B mount --bind "$R/cache/$lab_kernel/usr/lib/modules" $R/lib/modules
for fs in proc sys dev; do $B mount --move /$fs $R/$fs; done
$B mount -t tmpfs -o mode=755 run $R/run
$B mount -t tmpfs -o mode=1777 tmp $R/tmp
$B mkdir -p $R/dev/pts $R/dev/shm
$B mount -t devpts pts $R/dev/pts
$B mount -t tmpfs shm $R/dev/shm
$B mount -t cgroup2 cgroup2 $R/sys/fs/cgroup
$B mount -t bpf bpf $R/sys/fs/bpf
$B mount -t debugfs debug $R/sys/kernel/debug
$B mount -t tracefs trace $R/sys/kernel/tracing
$B hostname lab
[ "$lab_drm" = 0 ] || insmod_all drm
exec $B switch_root -c /dev/console $R /opt/lab/main.sh
