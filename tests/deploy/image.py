"""The scripts that build the image and read its archive: they are of the tree, not of a package."""

import sys

from tests.deploy.chart import ROOT

sys.path.insert(0, str(ROOT / "deploy" / "image"))

import build
import oci

__all__ = ["build", "oci"]
