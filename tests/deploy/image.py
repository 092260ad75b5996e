"""The scripts that build the image, read its archive and show it: they are of the tree, not of a package."""

import sys

from tests.deploy.chart import ROOT

sys.path.insert(0, str(ROOT / "deploy" / "image"))
sys.path.insert(0, str(ROOT / "examples"))

import build
import oci

import shipped

__all__ = ["build", "oci", "shipped"]
