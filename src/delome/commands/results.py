"""What runs have measured, as a table of numbers for programs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from delome.errors import ParameterError
from delome.experiment.collection import collect

if TYPE_CHECKING:
    from pandas import DataFrame

log = logging.getLogger(__name__)


def results(*folders: str | Path | Sequence[str | Path]) -> DataFrame:
    """A pandas ``DataFrame`` with a line for each seed of each run below folders (``runs`` if none is given).

    Columns are the settings, ``seed``, ``finished``, ``selection``, ``candidate`` and every metric. Results that
    cannot be read are left out, with a warning for each.
    """
    try:
        import pandas as pd
    except ImportError:
        raise ParameterError("delome.results needs pandas: pip install 'delome[pandas]'") from None
    places = [each for part in folders for each in ([part] if isinstance(part, str | Path) else part)]
    problems: list[str] = []
    records = collect(places or ["runs"], problems)
    for problem in problems:
        log.warning("%s", problem)
    lines = [
        {
            **record.config,
            "seed": record.seed,
            "finished": record.finished,
            "selection": record.selection,
            "candidate": record.candidate,
            **record.metrics,
            "folder": record.folder,
        }
        for record in records
    ]
    return pd.DataFrame(lines)
