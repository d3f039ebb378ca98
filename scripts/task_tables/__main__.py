"""Run the training of the tables of tasks: `python scripts/task_tables`."""

import sys
from pathlib import Path

# `python scripts/task_tables` puts this folder on the path; the one above makes it the package `task_tables`.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from task_tables import main

main()
