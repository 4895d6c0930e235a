"""The effort with which two indexes must be searched to find enough of a sample's neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.knn.cosines import rows_of
from mexma_cli.knn.faiss_index import gather
from mexma_cli.knn.index_search import Direction, draw, exact

TOLERATED = 0.02
"""So much less recall than asked for may be the sample's chance."""


class TooLittleRecall(MexmaError):
    """An index does not find as much as it is asked for, however hard it is searched."""


@dataclass(frozen=True)
class Effort:
    """How hard two indexes are searched, and what that finds.

    Attributes:
        indexes: The factory strings of the index over y and of the one over x.
        hits: Answers of an index that get an exact cosine, for each row.
        parameters: The search parameters of both, such as "nprobe=64", or "" where an index has none.
        recall: The share of the true k neighbours that are found, for rows of x and for rows of y.
        recall_first: The same for the nearest neighbour alone.
        sample: Rows of x and of y by which these were measured.
    """

    indexes: tuple[str, str]
    hits: int
    parameters: tuple[str, str]
    recall: tuple[float, float]
    recall_first: tuple[float, float]
    sample: tuple[int, int]

    @property
    def index(self) -> str:
        """The factory string, or both."""
        return " and ".join(dict.fromkeys(self.indexes))


def find_effort(ahead: Direction, back: Direction, k: int, recall: float) -> Effort:
    """The search effort of both indexes that finds enough of a sample's neighbours, measured on another one.
    `TooLittleRecall`: they cannot find that much; not for a recall of 1, which means all they can."""
    hits = min(_tuned(ahead, back, k, recall), max(len(ahead.other), len(back.other)))
    one, other = (
        _Probe(*both, k, draw(len(both[0].own))[1]).ranks(hits, hits) < hits
        for both in ((ahead, back), (back, ahead))
    )
    return Effort(
        (ahead.index.factory, back.index.factory),
        hits,
        (ahead.index.effort, back.index.effort),
        (float(one.mean()), float(other.mean())),
        (float(one[:, 0].mean()), float(other[:, 0].mean())),
        (len(one), len(other)),
    )


def fewest_hits(k: int) -> int:
    """Answers of an index that get an exact cosine, for each row, where that is enough for k neighbours."""
    return max(4 * k, 64)


def _tuned(ahead: Direction, back: Direction, k: int, recall: float) -> int:
    """Set the search effort of both indexes; how many of their answers must get an exact cosine."""
    both = (ahead, back), (back, ahead)
    probes = [_Probe(one, other, k, draw(len(one.own))[0]) for one, other in both]
    fewest = fewest_hits(k)
    # A graph that is asked for more answers is searched further anyway, so only its effort is varied.
    graph = "efSearch" in (ahead.index.parameter, back.index.parameter)
    counts = [fewest] if graph else [fewest, 2 * fewest, 4 * fewest]
    if ahead.index.refined or back.index.refined:  # the first depend on how many are asked
        counts = counts[-1:]
    while True:
        ranks = np.concatenate([probe.ranks(counts[-1], fewest).reshape(-1) for probe in probes])
        found = {hits: float((ranks < hits).mean()) for hits in counts}
        for hits in counts:
            if found[hits] >= recall:
                return hits
        harder = [one.index.try_harder() for one in (ahead, back)]
        if not any(harder):
            most = found[counts[-1]]
            if most < recall - TOLERATED and recall < 1:
                names = " and ".join(dict.fromkeys(one.index.factory for one in (ahead, back)))
                raise TooLittleRecall(
                    f"the index {names} finds {100 * most:.1f} % of the neighbours at most, and "
                    f"{100 * recall:.1f} % were asked for",
                    f"--recall {math.floor(100 * most) / 100:.2f}, in a corpus recipe `mine.recall`, takes "
                    "it as it is; longer codes find more, the exact search finds all",
                )
            # the fewest that find nearly as much as the most
            return next(hits for hits in counts if found[hits] >= 0.995 * found[counts[-1]])


class _Probe:
    """Some rows of one side and who their true neighbours are."""

    def __init__(self, search: Direction, reverse: Direction, k: int, rows: np.ndarray) -> None:
        self._index, self._reverse, self._rows = search.index, reverse.index, rows
        self._queries = gather(search.own, rows)
        nearest = exact(self._queries, search.other, min(k, len(search.other)))
        self._true = rows_of(nearest)[:, ::-1]
        self._targets, self._target = np.unique(self._true, return_inverse=True)
        self._vectors = gather(search.other, self._targets)

    def ranks(self, most: int, enough: int) -> np.ndarray:
        """The place, from 0, at which an index returns each true pair, int64 [n, k], the nearest first;
        `most` if none does.

        Of the places in both indexes the better one counts. The second index is not asked for pairs that the
        first one returns before place `enough`.
        """
        ids = self._index.search(self._queries, most)
        ranks = _places(np.repeat(ids, self._true.shape[1], axis=0), self._true.reshape(-1))
        late = np.flatnonzero(ranks >= enough)
        if len(late):
            wanted, which = np.unique(self._target.reshape(-1)[late], return_inverse=True)
            ids = self._reverse.search(self._vectors[wanted], most)
            rows = self._rows[late // self._true.shape[1]]
            ranks[late] = np.minimum(ranks[late], _places(ids[which], rows))
        return ranks.reshape(self._true.shape)


def _places(lists: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each number stands in its list [n, c]: int64 [n], c if nowhere."""
    same = lists == wanted[:, None]
    return np.where(same.any(axis=1), same.argmax(axis=1), lists.shape[1])
