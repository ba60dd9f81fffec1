# SPDX-License-Identifier: Apache-2.0
"""Container images without a registry: several single-layer images in one OCI layout tar."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MEDIA = "application/vnd.oci.image."


@dataclass(frozen=True, slots=True)
class Image:
    """`files` are {path in the image: file on the host}, `links` {path: target}."""

    reference: str
    entrypoint: tuple[str, ...]
    files: Mapping[str, Path]
    links: Mapping[str, str]


def write_images(images: list[Image], out: Path) -> None:
    """Write what `ctr images import` takes; the same bytes for the same files."""
    blobs: dict[str, bytes] = {}
    manifests = [_manifest(image, blobs) for image in images]
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": _json({"schemaVersion": 2, "manifests": manifests}),
        **blobs,
    }
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            tar.addfile(_member(name, size=len(data), mode=0o644), io.BytesIO(data))


def _manifest(image: Image, blobs: dict[str, bytes]) -> dict[str, object]:
    def blob(kind: str, data: bytes) -> dict[str, object]:
        name = hashlib.sha256(data).hexdigest()
        blobs["blobs/sha256/" + name] = data
        return {"mediaType": MEDIA + kind, "digest": "sha256:" + name, "size": len(data)}

    layer = blob("layer.v1.tar", _layer(image))
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": image.entrypoint, "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MEDIA + "manifest.v1+json",
        "config": blob("config.v1+json", _json(config)),
        "layers": [layer],
    }
    return {
        **blob("manifest.v1+json", _json(manifest)),
        "platform": {"architecture": "amd64", "os": "linux"},
        "annotations": {"io.containerd.image.name": image.reference},
    }


def _layer(image: Image) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            tar.addfile(_member(folder, kind=tarfile.DIRTYPE))
        for name, source in image.files.items():
            data = source.read_bytes()
            tar.addfile(_member(name, size=len(data)), io.BytesIO(data))
        for name, target in image.links.items():
            link = _member(name, kind=tarfile.SYMTYPE)
            link.linkname = target
            tar.addfile(link)
    return buffer.getvalue()


def _member(
    name: str, *, size: int = 0, mode: int = 0o755, kind: bytes = tarfile.REGTYPE
) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.type = size, mode, kind
    return member


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
