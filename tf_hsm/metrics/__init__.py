"""Keras metrics."""

from tf_hsm.metrics._perplexity import Perplexity
from tf_hsm.metrics._propensity import PropensityScoredPrecisionAtK
from tf_hsm.metrics._ranking import (
    MeanReciprocalRank,
    NDCGAtK,
    PrecisionAtK,
    RecallAtK,
    TopKAccuracy,
)

__all__ = [
    "MeanReciprocalRank",
    "NDCGAtK",
    "Perplexity",
    "PrecisionAtK",
    "PropensityScoredPrecisionAtK",
    "RecallAtK",
    "TopKAccuracy",
]
