"""Networks that classify nodes, as values: each reads what it prepared from a graph, and nothing else."""

from delome.backbones.backbone import BACKBONES, Backbone, Inputs, Network
from delome.backbones.gat import GAT
from delome.backbones.gcn import GCN
from delome.backbones.sgc import SGC

__all__ = ["BACKBONES", "GAT", "GCN", "SGC", "Backbone", "Inputs", "Network"]
