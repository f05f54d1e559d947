"""The git oracle: reads a recovered repository from first principles, without git."""

from crashsim.oracles.git.fsck import FsckReport, cross_check
from crashsim.oracles.git.oracle import GitOracle
from crashsim.oracles.git.rules import RULES, Rule
from crashsim.oracles.git.snapshot import (
    GitPromise,
    GitSnapshot,
    decode_promise,
    encode_promise,
    is_promise,
    snapshot,
)

__all__ = [
    "RULES",
    "FsckReport",
    "GitOracle",
    "GitPromise",
    "GitSnapshot",
    "Rule",
    "cross_check",
    "decode_promise",
    "encode_promise",
    "is_promise",
    "snapshot",
]
