"""Names for people: what tables, titles and figures call datasets and methods."""

from __future__ import annotations

import re
from collections.abc import Iterable


def short_names(datasets: Iterable[str]) -> dict[str, str]:
    """Datasets that are shown together: files without their folders and endings, as long as that tells them apart.

    >>> short_names(["file:a/cora.npz", "digits"])
    {'file:a/cora.npz': 'cora', 'digits': 'digits'}
    >>> short_names(["file:a/cora.npz", "file:b/cora.npz"])
    {'file:a/cora.npz': 'file:a/cora.npz', 'file:b/cora.npz': 'file:b/cora.npz'}
    """
    short = {dataset: short_name(dataset) for dataset in datasets}
    return short if len({*short.values()}) == len(short) else {dataset: dataset for dataset in short}


def short_name(dataset: str) -> str:
    """A dataset that is shown alone.

    >>> short_name("file:../data/cora.npz"), short_name("file:my.pt,undirected=false"), short_name("digits")
    ('cora', 'my,undirected=false', 'digits')
    """
    if not dataset.startswith("file:"):
        return dataset
    return re.sub(r"\.(npz|pt)(?=,|$)", "", re.sub(r"^.*/", "", dataset.removeprefix("file:"), flags=re.DOTALL))


def shown_method(name: str) -> str:
    """A method as it is shown: one of your own without its module.

    >>> shown_method("my_module:Mine"), shown_method("delome")
    ('Mine', 'delome')
    """
    return name.rpartition(":")[2]
