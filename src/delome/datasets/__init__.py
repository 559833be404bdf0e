"""Where graphs come from: one catalogue, one file a source."""

from delome.datasets.catalogue import DATASETS, Dataset, load_graph

__all__ = ["DATASETS", "Dataset", "load_graph"]
