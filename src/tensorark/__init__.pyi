# Every public name, once: type checkers read it here, and so does `__getattr__` of the package.

from typing import Final

from tensorark import numpy as numpy
from tensorark import quantize as quantize
from tensorark import sparse as sparse
from tensorark import torch as torch
from tensorark.conversion.pipeline import Conversion as Conversion
from tensorark.conversion.pipeline import convert as convert
from tensorark.core.limits import Limits as Limits
from tensorark.core.model import Catalog as Catalog
from tensorark.core.model import Encoded as Encoded
from tensorark.core.model import Part as Part
from tensorark.core.model import Raw as Raw
from tensorark.core.model import Span as Span
from tensorark.core.model import Tensor as Tensor
from tensorark.core.rules import Finding as Finding
from tensorark.edit.append import Amendment as Amendment
from tensorark.edit.append import append as append
from tensorark.edit.merge import Merge as Merge
from tensorark.edit.merge import merge as merge
from tensorark.edit.metadata import Edit as Edit
from tensorark.edit.metadata import edit_metadata as edit_metadata
from tensorark.edit.metadata import metadata_of as metadata_of
from tensorark.edit.overlay import Overlay as Overlay
from tensorark.edit.overlay import delta as delta
from tensorark.edit.overlay import overlay as overlay
from tensorark.edit.prune import Pruning as Pruning
from tensorark.edit.prune import prune as prune
from tensorark.edit.repack import repack as repack
from tensorark.edit.split import PlannedShard as PlannedShard
from tensorark.edit.split import SplitPlan as SplitPlan
from tensorark.edit.split import split as split
from tensorark.errors import Error as Error
from tensorark.errors import InvalidInput as InvalidInput
from tensorark.errors import LimitExceeded as LimitExceeded
from tensorark.errors import NotFound as NotFound
from tensorark.errors import ReadFailed as ReadFailed
from tensorark.errors import Rejected as Rejected
from tensorark.errors import Unsupported as Unsupported
from tensorark.files import File as File
from tensorark.files import open as open  # noqa: A004 - the verb users know
from tensorark.files import validate as validate
from tensorark.files.view import TensorView as TensorView
from tensorark.integrity.change import Change as Change
from tensorark.integrity.change import Difference as Difference
from tensorark.integrity.diff import diff as diff
from tensorark.integrity.identity import content_digest as content_digest
from tensorark.integrity.keys import make_key as make_key
from tensorark.integrity.seal import seal as seal
from tensorark.integrity.seal_check import SealCheck as SealCheck
from tensorark.integrity.seal_check import check_seal as check_seal
from tensorark.integrity.seal_document import Seal as Seal
from tensorark.integrity.sign import sign as sign
from tensorark.integrity.signature_document import SignedStatement as SignedStatement
from tensorark.integrity.signature_document import Statement as Statement
from tensorark.integrity.verify import Verification as Verification
from tensorark.integrity.verify import verify as verify
from tensorark.integrity.verify_signature import SignatureCheck as SignatureCheck
from tensorark.integrity.verify_signature import verify_signature as verify_signature
from tensorark.numpy import load_file as load_file
from tensorark.numpy import safe_open as safe_open
from tensorark.numpy import save_file as save_file
from tensorark.report.diagnosis import Diagnosis as Diagnosis
from tensorark.report.diagnosis import diagnose as diagnose
from tensorark.report.zt_history import PastGeneration as PastGeneration
from tensorark.writing.writer import Writer as Writer

__version__: Final[str]
