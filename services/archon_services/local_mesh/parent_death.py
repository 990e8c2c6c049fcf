"""python leash.py PARENT COMMAND ...: becomes COMMAND, which the system kills when PARENT ends, even by SIGKILL.

A program of its own and not a hook between fork and exec, since that is not safe in a process with threads. It runs
without site packages, which takes about 10 ms. Linux only; the request survives the exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Never returns."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the request was made
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
