"""The generated files of the Helm chart in `deploy/chart/syncline`.

The templates of the chart are written by hand. Everything that the code knows is generated: the CRDs, the roles, the
policies, the values with their schema, and the README. A test renders the chart and compares it with `everything`.
"""

from syncline.deploy.chart.files import FOLDER, files

__all__ = ["FOLDER", "files"]
