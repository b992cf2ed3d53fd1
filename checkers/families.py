"""All checkers: whoever writes a new family adds its module here and nothing else."""

from __future__ import annotations

from checkers import (
    broker_logs,
    coordinators,
    delivery,
    groups,
    idempotence,
    keys,
    leadership,
    linearizability,
    liveness,
    metadata,
    offsets,
    order,
    replicas,
    transactions,
    watermarks,
)
from checkers.frame import Family, Study

_MODULES = (
    delivery,
    offsets,
    keys,
    order,
    linearizability,
    watermarks,
    metadata,
    coordinators,
    leadership,
    idempotence,
    transactions,
    groups,
    replicas,
    liveness,
    broker_logs,
)

FAMILIES: tuple[Family, ...] = tuple(family for module in _MODULES for family in module.FAMILIES)
STUDIES: tuple[Study, ...] = tuple(study for module in _MODULES for study in module.STUDIES)
