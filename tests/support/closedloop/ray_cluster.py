"""A Ray cluster of several nodes on this machine, whose nodes a test kills and adds; in a process of its own."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from types import TracebackType
from typing import Any

ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray's switch for loopback addresses
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "5000",
}
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


class RayClusterProcess:
    """A head, which has no CPU for worlds, and `nodes` further ones with one CPU each.

    `environment`: with which a command connects to it at `address`.
    """

    def __init__(self, nodes: int, **resources: float) -> None:
        self.environment = {**ENVIRONMENT, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(nodes), repr(resources)],
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._answer()

    def kill_node(self, index: int) -> None:
        """SIGKILL to the raylet of a node that is alive; `index`: modulo their number."""
        self._command(f"kill {index}")

    def add_node(self) -> None:
        self._command("add")

    def _command(self, text: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()
        assert self._answer() == "done"

    def _answer(self) -> str:
        assert self._process.stdout
        while line := self._process.stdout.readline():
            if line.startswith("answer "):
                return line.split()[1]
        raise AssertionError("the cluster's process ended")

    def __enter__(self) -> RayClusterProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def _serve(nodes: int, resources: dict[str, float]) -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0})
    alive = [cluster.add_node(**NODE, resources=resources) for _ in range(nodes)]
    print("answer", cluster.address, flush=True)
    for line in sys.stdin:
        if line.startswith("kill"):
            node = alive.pop(int(line.split()[1]) % len(alive))
            node.kill_raylet(check_alive=False)
            node.kill_all_processes(check_alive=False, allow_graceful=False)
            cluster.worker_nodes.discard(node)
        else:
            alive.append(cluster.add_node(**NODE, resources=resources))
        print("answer done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":  # arguments: number of nodes, their resources
    import ast

    _serve(int(sys.argv[1]), ast.literal_eval(sys.argv[2]))
