# SPDX-License-Identifier: Apache-2.0
"""An API server that knows some pods: enough of lists and watches for a client's informers."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_KINDS = {"pods": "PodList", "replicasets": "ReplicaSetList", "namespaces": "NamespaceList"}


def pod(
    name: str, uid: str, *, container: str, container_id: str, node: str, ip: str, owner: str = ""
) -> dict[str, Any]:
    """A running pod of one container; `owner` is the name of its ReplicaSet."""
    references = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": owner,
            "uid": f"uid-of-{owner}",
            "controller": True,
        }
    ]
    labels = {"pod-template-hash": owner.rpartition("-")[2]} if owner else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": uid,
            "resourceVersion": "1",
            "labels": labels,
            "ownerReferences": references if owner else [],
        },
        "spec": {"nodeName": node, "containers": [{"name": container, "image": "busybox:1"}]},
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "startTime": "2026-12-01T00:00:00Z",
            "containerStatuses": [
                {
                    "name": container,
                    "containerID": f"containerd://{container_id}",
                    "image": "busybox:1",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": "2026-12-01T00:00:00Z"}},
                }
            ],
        },
    }


@contextmanager
def api_server(folder: Path, pods: Sequence[dict[str, Any]]) -> Iterator[Path]:
    """A kubeconfig for a server on the loopback, while the block runs."""
    ending = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            resource = url.path.rpartition("/")[2]
            self.send_response(200 if resource in _KINDS else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            if "watch" in query:
                if query.get("sendInitialEvents") == ["true"]:
                    self._event("ERROR", {"kind": "Status", "code": 400, "reason": "BadRequest"})
                ending.wait()
                return
            items = pods if resource == "pods" else []
            kind = _KINDS.get(resource, "Status")
            self.wfile.write(
                json.dumps(
                    {
                        "apiVersion": "v1",
                        "kind": kind,
                        "metadata": {"resourceVersion": "1"},
                        "items": items,
                    }
                ).encode()
            )

        def _event(self, kind: str, value: dict[str, Any]) -> None:
            self.wfile.write(json.dumps({"type": kind, "object": value}).encode() + b"\n")
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    config = folder / "kubeconfig"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "fake",
                "clusters": [
                    {
                        "name": "fake",
                        "cluster": {"server": f"http://127.0.0.1:{server.server_port}"},
                    }
                ],
                "users": [{"name": "fake", "user": {}}],
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
            }
        )
    )
    try:
        yield config
    finally:
        ending.set()
        server.shutdown()
        thread.join()
        server.server_close()
