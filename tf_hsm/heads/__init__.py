"""Heads as plain objects on rows of weights, without Keras.

Every head has the methods of `tf_hsm.heads.head.Head`. `TreeHead` is the
hierarchical softmax over one tree. The other heads are made of it: a
`ShardedHead` of a top and of one `TreeHead` for each device, a `ClusterHead` of
a shortlist and tails.
"""
