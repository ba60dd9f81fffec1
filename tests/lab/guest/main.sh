#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The guest's process 1: brings up network and containerd, then runs the jobs it is given.
#
# A job is a folder /vm/jobs/ID with a file `command`; its name comes in as one line on the
# virtio port.  It leaves `pid` (its process group), `output` and, when it is over, `rc`.
export PATH=/opt/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
export HOME=/ PYTHONPATH=/opt/site LANG=C.UTF-8

ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2

start_containerd() {
	# overlayfs cannot be stacked on the root's own overlay
	mkdir -p /var/lib/containerd /run/lab
	mount -t tmpfs -o size=512m containerd /var/lib/containerd
	containerd --config /opt/lab/containerd.toml > /vm/containerd.log 2>&1 &
	until [ -S /run/containerd/containerd.sock ]; do usleep 50000; done
	ctr -n k8s.io images import --digests=false /opt/lab/images.tar > /dev/null || return
	echo up > /vm/ready
}
# What reads and translates these for the first time takes seconds longer: do it beside containerd.
python3 -c 'import grpc, yaml, ctypes, google.protobuf' &
# shellcheck disable=SC2154 # of the kernel's command line
if [ "$lab_containerd" = 0 ]; then echo up > /vm/ready; else start_containerd & fi

# The port is announced by a message from QEMU, after its driver is loaded.
until port=$(ls /dev/vport*p1 2> /dev/null); do usleep 20000; done
while read -r id; do
	# shellcheck disable=SC2016 # the job's shell expands them
	# A signal to the group is for the command: this shell lives on to say how it ended.
	setsid sh -c '
		trap : TERM INT
		cd "/vm/jobs/$0" && echo $$ > pid
		sh ./command > output 2>&1 < /dev/null
		echo $? > rc.new
		mv rc.new rc' "$id" &
done < "$port"
