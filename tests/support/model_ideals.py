"""The persistence models without the defects of the kernels that they follow."""

from collections.abc import Mapping
from dataclasses import replace

from crashsim.model.f2fs import F2FS
from crashsim.model.models import MODELS
from crashsim.model.persistence import Model

INTENDED: Mapping[str, Model] = {**MODELS, "f2fs": replace(F2FS, first_sync_lags=False)}
"""By the names of `MODELS`: what fsync(2) is said to do, on each."""
