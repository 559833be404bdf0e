"""Networks that classify nodes: each reads what it prepared from a graph, and nothing else."""

from delome.backbones.backbone import Backbone, Inputs
from delome.backbones.gat import GAT
from delome.backbones.gcn import GCN
from delome.backbones.sgc import SGC

BACKBONES: dict[str, type[Backbone]] = {"sgc": SGC, "gcn": GCN, "gat": GAT}

__all__ = ["BACKBONES", "GAT", "GCN", "SGC", "Backbone", "Inputs"]
