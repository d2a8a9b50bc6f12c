"""From a Hugging Face style checkpoint to a `.ninfer`, by a recipe.

Two stages: everything is decided and measured without reading a weight (`plan_artifact`), then
it is written in one pass (`write_artifact`). Quantizing is lossy by nature and only ever done
because a recipe says so. The way back is `tensorark.ninfer.unpack`.
"""

from tensorark.ninfer.pack.artifact import ArtifactPlan, plan_artifact, write_artifact
from tensorark.ninfer.pack.convert import convert_checkpoint
from tensorark.ninfer.pack.presets import PRESETS
from tensorark.ninfer.pack.recipe import Assignment, Proposal, Recipe, parse_recipe, read_recipe

__all__ = [
    "PRESETS",
    "ArtifactPlan",
    "Assignment",
    "Proposal",
    "Recipe",
    "convert_checkpoint",
    "parse_recipe",
    "plan_artifact",
    "read_recipe",
    "write_artifact",
]
