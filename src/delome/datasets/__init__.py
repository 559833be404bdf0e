"""Where graphs come from: one catalogue, one file a source."""

from typing import TYPE_CHECKING

from delome.lazy import exported

if TYPE_CHECKING:
    from delome.datasets.catalogue import DATASETS, Dataset, load_graph
else:
    __getattr__, __dir__ = exported(__name__, {"delome.datasets.catalogue": "DATASETS Dataset load_graph"})

__all__ = ["DATASETS", "Dataset", "load_graph"]
