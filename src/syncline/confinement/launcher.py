"""Runs a confined program: `python -I -S launcher.py WALLS PROGRAM ARGUMENT...`. It is a script, not a module."""

import os
import sys

if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120

    from syncline.confinement.walls import main

    main()
