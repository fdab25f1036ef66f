"""Children die with their parent."""

from __future__ import annotations

import subprocess
import sys

from tests.stack.fakes import alive, wait_until

# A parent that has one child, tells its process id, and stays.
PARENT = """
import subprocess, sys
from tokenweir.stack.lifeline import lifeline
child = subprocess.Popen(["sleep", "600"], preexec_fn=lifeline(), process_group=0)
print(child.pid, flush=True)
child.wait()
"""


def test_a_killed_parent_takes_its_child_along() -> None:
    """SIGKILL of the parent kills the child, though it is in a group of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()

    wait_until(lambda: not alive(pid))
