"""Published datasets: where their files are, how they are read, and what they must contain."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

import numpy as np

from delome.datasets.fetching import converted
from delome.datasets.fetching.archives import extract_zip
from delome.datasets.fetching.cache import (
    cache_root,
    complete_layout,
    record_checksums,
    verified_checksums,
    what_is_here,
)
from delome.datasets.fetching.download import download
from delome.datasets.fetching.reading import Progress, Reader, Reading, Statistics, announced, silent
from delome.datasets.sources import bag_of_words, ogb, reddit
from delome.errors import DatasetError, DelomeError
from delome.graph import Graph
from delome.persistence.lock import sole_writer


@dataclass(frozen=True)
class Published:
    """One published dataset, kept in a folder of its name in the cache.

    The folder holds the archive (or the raw files of one of ``layouts``, placed there by hand in any subfolder),
    ``checksums.json`` with the SHA-256 of each source file at its first successful reading, and ``converted/``.
    A file that is found there is used and never deleted; one that was just downloaded and proves wrong is.
    """

    name: str
    url: str
    read: Reader
    layouts: tuple[tuple[str, ...], ...]
    statistics: Statistics
    sha256: str | None = None
    attributes: tuple[str, ...] = ()
    """Node attributes that the archive has: a form that was converted when they were not read is made again."""

    def folder(self, data_root: str | Path | None = None) -> Path:
        return cache_root(data_root) / self.name

    @property
    def archive(self) -> str:
        """Name of the downloaded file."""
        return PurePosixPath(urlsplit(self.url).path).name

    def cached(self, data_root: str | Path | None = None) -> Literal["converted", "raw files", "nothing"]:
        """What a load would start from; contents are not checked."""
        return what_is_here(self.folder(data_root), self.archive, self.layouts)

    def load(self, data_root: str | Path | None = None, progress: Progress = silent) -> Graph:
        """The graph, from the converted form if there is one, else from raw files, else from a download."""
        folder = self.folder(data_root)
        if (graph := self._converted(folder)) is not None:
            return graph
        progress = announced(progress)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                waiting = f"waiting for another process that loads {folder.name}"
                with sole_writer(folder, lambda: progress(waiting, 0, None)):
                    if (graph := self._converted(folder)) is None:  # while we waited, another process may have made it
                        self._convert(folder, progress)
                        graph = self._converted(folder)
            finally:
                with suppress(OSError):
                    folder.rmdir()  # only if it is empty
        except OSError as error:
            raise DatasetError(
                f"cannot write into '{folder}' ({error.strerror or error}): choose another folder with --data-root"
            ) from None
        if graph is None:
            raise DatasetError(f"'{folder / 'converted'}' cannot be read back: check the disk")
        return graph

    @property
    def _about(self) -> dict[str, Any]:
        about = {"dataset": self.name, "published": asdict(self.statistics)}
        return about | ({"attributes": list(self.attributes)} if self.attributes else {})

    def _converted(self, folder: Path) -> Graph | None:
        return converted.read(folder / "converted", self._about, self.statistics.most_bytes)

    def _convert(self, folder: Path, progress: Progress) -> None:
        for left_by_a_killed_process in folder.glob(".working-*"):
            shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
        archive = folder / self.archive
        sources = [archive] if archive.is_file() else complete_layout(folder, self.layouts)
        downloaded = not sources
        if downloaded:
            download(self.url, archive, progress=progress)
            sources = [archive]
        # on Windows a file that is still mapped cannot be removed
        with tempfile.TemporaryDirectory(dir=folder, prefix=".working-", ignore_cleanup_errors=True) as name:
            workspace = Path(name)
            try:
                known = {self.archive: self.sha256} if self.sha256 else {}
                self._refuse_too_large(sources)
                progress(f"verifying {sources[0].name}", 0, None)
                checksums = verified_checksums(folder, sources, known)
                reading = self._read(sources, workspace, progress)
                self._check(sources[0], reading)
            except DelomeError:
                if downloaded:
                    archive.unlink()
                raise
            progress(f"converting {self.name}, which agrees with its published statistics", 0, None)
            converted.write(reading.graph, workspace / "new", self._about, checksums)
            if (folder / "converted").exists():
                (folder / "converted").rename(workspace / "old")
            (workspace / "new").rename(folder / "converted")
            record_checksums(folder, checksums)

    def _refuse_too_large(self, sources: list[Path]) -> None:
        for file in sources:
            if (size := file.stat().st_size) > self.statistics.most_bytes:
                raise DatasetError(f"'{file}' is not the published {self.name}: it has {size:,} bytes")

    def _read(self, sources: list[Path], workspace: Path, progress: Progress) -> Reading:
        if sources[0].suffix != ".zip":
            return self.read(sources[0].parent, workspace, self.statistics, progress)
        progress(f"unpacking {self.archive}", 0, None)
        extract_zip(sources[0], workspace / "unpacked", self.statistics.most_bytes)
        if not (raw := complete_layout(workspace / "unpacked", self.layouts)):
            raise DatasetError(f"'{sources[0]}' is not the published archive: it has no {self.layouts[0][0]}")
        try:
            return self.read(raw[0].parent, workspace, self.statistics, progress)
        except DelomeError as error:
            # the unpacked files are gone when the sentence is read: it names the archive instead
            raise DatasetError(str(error).replace(str(workspace / "unpacked"), str(sources[0]))) from None

    def _check(self, source: Path, reading: Reading) -> None:
        graph = reading.graph
        labels = np.asarray(graph.labels)
        classes = len(np.unique(labels[labels >= 0]))
        found = Statistics(graph.num_nodes, reading.published_edges, graph.num_features, classes)
        wanted = asdict(self.statistics)
        if found != self.statistics:
            different = [
                f"{number:,} {what} instead of {wanted[what]:,}"
                for what, number in asdict(found).items()
                if number != wanted[what]
            ]
            raise DatasetError(f"'{source}' is not the published {self.name}: it has {' and '.join(different)}")


def _npz(name: str, url: str, nodes: int, edges: int, features: int, classes: int) -> Published:
    file = url.rpartition("/")[2]
    return Published(
        name, url, partial(bag_of_words.read, file=file), ((file,),), Statistics(nodes, edges, features, classes)
    )


_CITATION = "https://github.com/abojchevski/graph2gauss/raw/master/data"
_SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_OGB = "https://snap.stanford.edu/ogb/data/nodeproppred"

PUBLISHED: dict[str, Published] = {
    entry.name: entry
    for entry in (
        _npz("corafull", f"{_CITATION}/cora.npz", 19_793, 126_842, 8_710, 70),
        # edges stay directed, from the citing to the cited paper
        Published(
            "arxiv",
            f"{_OGB}/arxiv.zip",
            partial(ogb.read, undirected=False),
            ogb.LAYOUTS,
            Statistics(169_343, 1_166_243, 128, 40),
            attributes=(ogb.YEAR,),
        ),
        # both directions of an edge are stored
        Published(
            "reddit",
            "https://data.dgl.ai/dataset/reddit.zip",
            reddit.read,
            (reddit.LAYOUT,),
            Statistics(232_965, 114_615_892, 602, 41),
        ),
        # an edge is stored once, and the benchmark's own loader adds its reverse
        Published(
            "products",
            f"{_OGB}/products.zip",
            partial(ogb.read, undirected=True),
            ogb.LAYOUTS,
            Statistics(2_449_029, 61_859_140, 100, 47),
        ),
        _npz("cora_ml", f"{_CITATION}/cora_ml.npz", 2_995, 16_316, 2_879, 7),
        _npz("citeseer", f"{_CITATION}/citeseer.npz", 4_230, 10_674, 602, 6),
        _npz("dblp", f"{_CITATION}/dblp.npz", 17_716, 105_734, 1_639, 4),
        _npz("pubmed", f"{_CITATION}/pubmed.npz", 19_717, 88_648, 500, 3),
        _npz("amazon_computers", f"{_SHCHUR}/amazon_electronics_computers.npz", 13_752, 491_722, 767, 10),
        _npz("amazon_photo", f"{_SHCHUR}/amazon_electronics_photo.npz", 7_650, 238_162, 745, 8),
        _npz("coauthor_cs", f"{_SHCHUR}/ms_academic_cs.npz", 18_333, 163_788, 6_805, 15),
        _npz("coauthor_physics", f"{_SHCHUR}/ms_academic_phy.npz", 34_493, 495_924, 8_415, 5),
    )
}
