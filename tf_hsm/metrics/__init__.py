"""Keras metrics."""

from tf_hsm.metrics._accuracy import PrecisionAtK, TopKAccuracy
from tf_hsm.metrics._perplexity import Perplexity
from tf_hsm.metrics._propensity import PropensityScoredPrecisionAtK
from tf_hsm.metrics._ranking import MeanReciprocalRank, NDCGAtK, RecallAtK

__all__ = [
    "MeanReciprocalRank",
    "NDCGAtK",
    "Perplexity",
    "PrecisionAtK",
    "PropensityScoredPrecisionAtK",
    "RecallAtK",
    "TopKAccuracy",
]
