"""`python -m syncline` is the `syncline` command."""

import sys

from syncline.cli import main

if __name__ == "__main__":
    sys.exit(main())
