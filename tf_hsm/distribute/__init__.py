"""One head on several devices: its tree is cut into subtrees, each on one."""

from tf_hsm.distribute.plan import Plan
from tf_hsm.distribute.plan_cost import PlanCost, ShardCost
from tf_hsm.distribute.planner import plan
from tf_hsm.distribute.shard import Shard
from tf_hsm.distribute.simulation import Simulation
from tf_hsm.distribute.step import Step

__all__ = [
    "Plan",
    "PlanCost",
    "Shard",
    "ShardCost",
    "Simulation",
    "Step",
    "plan",
]
