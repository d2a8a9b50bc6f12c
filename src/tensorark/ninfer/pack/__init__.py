"""From a Hugging Face style checkpoint to a `.ninfer`, by a recipe; and back.

Two stages: everything is decided and measured without reading a weight (`planned_artifact`), then
it is written in one pass (`write_artifact`). Quantising is lossy by nature and only ever done
because a recipe says so.
"""

from tensorark.ninfer.pack.artifact import (
    ArtifactPlan,
    convert_checkpoint,
    planned_artifact,
    write_artifact,
)
from tensorark.ninfer.pack.presets import PRESETS
from tensorark.ninfer.pack.recipe import (
    Assignment,
    Proposal,
    Recipe,
    parse_recipe,
    read_recipe,
)
from tensorark.ninfer.unpack import export_checkpoint, export_parameters

__all__ = [
    "PRESETS",
    "ArtifactPlan",
    "Assignment",
    "Proposal",
    "Recipe",
    "convert_checkpoint",
    "export_checkpoint",
    "export_parameters",
    "parse_recipe",
    "planned_artifact",
    "read_recipe",
    "write_artifact",
]
