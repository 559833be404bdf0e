"""What a learner gives away of the nodes it was trained on: attacks, their certainty, and what they could have seen."""

from delome.privacy.audit import Audit, audit

__all__ = ["Audit", "audit"]
