#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A containerd of another version beside the guest's own, until it is told to end:
#
#   containerd-beside FOLDER SOCKET     FOLDER has its programs; the guest's runc is its runc
folder=$1 socket=$2
home=/var/lib/beside state=/run/beside
mkdir -p $home "$(dirname "$socket")"
mountpoint -q $home || mount -t tmpfs -o size=256m beside $home
sed -e "s#/run/containerd/containerd.sock#$socket#" -e "s#^root = .*#root = \"$home\"#" \
	-e "s#^state = .*#state = \"$state\"#" /opt/lab/containerd.toml > /run/beside.toml
PATH=$folder:$PATH exec containerd --config /run/beside.toml
