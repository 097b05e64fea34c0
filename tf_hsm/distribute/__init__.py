"""One head on several devices: its tree is cut into subtrees, each on one."""

from tf_hsm.distribute.plan import Plan, Shard, plan

__all__ = ["Plan", "Shard", "plan"]
