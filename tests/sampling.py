"""Which examples the property tests take: the same ones in each run, or many others (`make explore`)."""

import os
import random

from hypothesis import settings

EXPLORE = os.environ.get("SYNCLINE_EXAMPLES") == "all"
"""Whether to look for examples that nobody has tried yet. The usual run must say the same about the same code."""

# Time limits would only measure the machine.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("explore" if EXPLORE else "same")

quick = settings(max_examples=400 if EXPLORE else 40)
thorough = settings(max_examples=2000 if EXPLORE else 120)


def dice(name: str) -> random.Random:
    """Return random numbers, by name the same in each run unless exploring."""
    return random.Random(None if EXPLORE else name)
