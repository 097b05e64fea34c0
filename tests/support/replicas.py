"""Two CPUs for replicas, to be imported before TensorFlow runs anything."""

from tests.support import logical_cpus

CPUS = logical_cpus.divided(2)
