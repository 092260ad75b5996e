"""All examples are alike: each says what to expect, and a test plays it."""

import re
from pathlib import Path

from tests.examples.scene import EXAMPLES


def test_every_example_says_what_to_expect_and_is_tested() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*sync.py")]
    tested = {match[1] for text in texts for match in re.finditer(r'play\("([^"]+)"', text)}
    examples = {str(path.relative_to(EXAMPLES)): path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*/*.yaml")}
    assert tested == examples.keys()
    assert all(re.match(r"(#  ?.*\n)*# Expect: ", text) for text in examples.values())
