"""`python -m closedloop_plugin.runner FD PARENT`: a world process. Started by world_processes.py only."""

import sys
from multiprocessing.connection import Connection

from closedloop_plugin.runner.worker import main

main(Connection(int(sys.argv[1])), int(sys.argv[2]))
