"""One head on several devices: its tree is cut into subtrees, each on one."""

from tf_hsm.distribute.plan import Plan
from tf_hsm.distribute.plan_cost import PlanCost, ShardCost
from tf_hsm.distribute.planner import plan
from tf_hsm.distribute.shard import Shard

__all__ = ["Plan", "PlanCost", "Shard", "ShardCost", "plan"]
