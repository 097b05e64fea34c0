"""Sessions of a shop that does not exist, with a structure that is known.

The shop has T topics with R items each. An item is a pair (topic, rank). Both
are drawn by Zipf's law: topic t with a probability proportional to
(t + 1)^-0.8, rank r within its topic to (r + 1)^-1. A session begins with such
an item, and every next item is

- with probability 0.15 a new item of a new topic, drawn in the same way;
- with probability 0.30 x 0.85 the one of the next rank in the same topic, such
  as the next part of a series;
- else a new item of the same topic.

Item numbers are a random permutation, so that they say nothing. Who knows the
structure knows the best ten items: the next rank, and the first ranks of the
topic. `Shop.ceiling` is the share of next items that are among them.

Later the shop launches new items, one each in some topics. In sessions after
the launch, one item of ten in such a topic is the new one.
"""

import numpy as np

STAY, FOLLOW, LAUNCHED = 0.85, 0.3, 0.1
_ITEMS_PER_TOPIC = 500


class Shop:
    """The items and how people buy them.

    Attributes:
        num_items: the old items, 0 to num_items - 1.
        num_new: the items that are launched later; their numbers follow.
    """

    def __init__(self, num_items, num_new=0, seed=0):
        """Draws which item is which; `num_items` is rounded to whole topics."""
        rng = np.random.default_rng(seed)
        self._ranks = min(_ITEMS_PER_TOPIC, max(num_items // 4, 1))
        self._topics = num_items // self._ranks
        self.num_items = self._topics * self._ranks
        self.num_new = min(num_new, self._topics)
        self._numbers = rng.permutation(self.num_items).astype(np.int32)
        self._topic_cdf = _zipf_cdf(self._topics, 0.8)
        self._rank_cdf = _zipf_cdf(self._ranks, 1.0)
        # The new item of each topic, or -1.
        self._launched = np.full(self._topics, -1, np.int32)
        chosen = rng.choice(self._topics, self.num_new, replace=False)
        self._launched[chosen] = self.num_items + np.arange(self.num_new)

    def sessions(self, count, length=10, seed=1, launched=False):
        """Draws sessions `[count, length]` int32.

        Args:
            count: how many.
            length: items of a session.
            seed: other seeds, other sessions.
            launched: whether these are sessions after the launch.
        """
        rng = np.random.default_rng(seed)
        result = np.empty([count, length], np.int32)
        topics, ranks = np.zeros([2, count], np.int64)
        for position in range(length):
            stays = rng.random(count) < (STAY if position else 0)
            follows = stays & (rng.random(count) < FOLLOW)
            new_topics = np.searchsorted(self._topic_cdf, rng.random(count))
            new_ranks = np.searchsorted(self._rank_cdf, rng.random(count))
            topics = np.where(stays, topics, new_topics)
            ranks = np.where(follows, (ranks + 1) % self._ranks, new_ranks)
            items = self._numbers[topics * self._ranks + ranks]
            if launched:
                new = self._launched[topics]
                is_new = (new >= 0) & (rng.random(count) < LAUNCHED)
                items = np.where(is_new, new, items)
            result[:, position] = items
        return result

    def similar_old_items(self):
        """Returns `[num_new]`: an ordinary item of each new one's topic.

        A shop knows the category of an item before anyone buys it. The most
        frequent items would not do: `Tree.from_data` puts the most frequent
        items of all topics into one group.
        """
        topics = np.flatnonzero(self._launched >= 0)
        order = np.argsort(self._launched[topics])
        return self._numbers[topics[order] * self._ranks + self._ranks // 2]

    def ceiling(self, k):
        """Returns about the largest possible recall@k, before the launch."""
        first = self._rank_cdf[min(k - 1, self._ranks) - 1]
        return STAY * (FOLLOW + (1 - FOLLOW) * first)


def _zipf_cdf(size, exponent):
    """Returns the cumulative distribution `[size]` of Zipf's law."""
    weights = np.arange(1, size + 1) ** -float(exponent)
    return np.cumsum(weights) / weights.sum()
