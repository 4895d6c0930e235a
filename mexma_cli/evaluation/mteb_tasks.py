"""The tasks of the MEXMA paper's Tables 2 to 4 and 16 to 30, by the mteb package's names, and CLFT's table.

Names are pinned without `.v2`: those are other data. A subset is a language of a multilingual task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mexma_cli.errors import MexmaError


@dataclass(frozen=True)
class Task:
    """One line of a table.

    Attributes:
        name: Of mteb.
        subset: Of the task, as mteb calls it; None: all, or the task has none.
    """

    name: str
    subset: str | None = None

    def __str__(self) -> str:
        return self.name if self.subset is None else f"{self.name} ({self.subset})"


def _tasks(text: str) -> tuple[Task, ...]:
    """Tasks by `name` or `name:subset`, with spaces between them."""
    parts = (word.partition(":") for word in text.split())
    return tuple(Task(name, subset or None) for name, _, subset in parts)


TABLES: dict[int, tuple[Task, ...]] = {
    16: _tasks("BUCC:de-en BUCC:fr-en BUCC:ru-en BUCC:zh-en"),
    18: _tasks(
        "AmazonCounterfactualClassification:en AmazonPolarityClassification AmazonReviewsClassification:en "
        "Banking77Classification ImdbClassification MTOPDomainClassification:en MTOPIntentClassification:en "
        "MasakhaNEWSClassification:eng MassiveIntentClassification:en MassiveScenarioClassification:en "
        "ToxicConversationsClassification"
    ),
    19: _tasks(
        "AmazonReviewsClassification:zh MassiveIntentClassification:zh-CN "
        "MassiveScenarioClassification:zh-CN JDReview MultilingualSentiment OnlineShopping Waimai"
    ),
    20: _tasks(
        "AmazonReviewsClassification:fr MTOPDomainClassification:fr MTOPIntentClassification:fr "
        "MassiveIntentClassification:fr MassiveScenarioClassification:fr"
    ),
    21: _tasks(
        "DanishPoliticalCommentsClassification LccSentimentClassification MassiveIntentClassification:da "
        "MassiveScenarioClassification:da NordicLangClassification"
    ),
    22: _tasks(
        "MassiveIntentClassification:nb MassiveScenarioClassification:nb NoRecClassification "
        "NordicLangClassification"
    ),
    23: _tasks(
        "AllegroReviews MassiveIntentClassification:pl MassiveScenarioClassification:pl PAC PolEmo2.0-IN "
        "PolEmo2.0-OUT"
    ),
    24: _tasks("PawsXPairClassification:en SprintDuplicateQuestions XNLI:en"),
    25: _tasks("PawsXPairClassification:fr OpusparcusPC:fr XNLI:fr"),
    26: _tasks("PawsXPairClassification:zh Cmnli Ocnli"),
    27: _tasks(
        "BIOSSES SICK-R STS12 STS13 STS14 STS15 STS16 STS17:en-en STS22:en STSBenchmark "
        "STSBenchmarkMultilingualSTS:en"
    ),
    28: _tasks("ATEC BQ LCQMC PAWSX STS22:zh STSB STSBenchmarkMultilingualSTS:zh"),
    29: _tasks("SICKFr STS22:fr STSBenchmarkMultilingualSTS:fr"),
    30: _tasks("CDSC-R SICK-R-PL STS22:pl STSBenchmarkMultilingualSTS:pl"),
}
GROUPS: dict[int, dict[str, int]] = {
    2: {"en": 18, "zh": 19, "fr": 20, "da": 21, "nb": 22, "pol": 23},
    3: {"en": 24, "zh": 26, "fr": 25},
    4: {"eng": 27, "zh": 28, "fr": 29, "pl": 30},
}
"""Tables of means: their columns, and the table that each is the mean of. Table 2 has SentEval besides."""
CLFT_LANGUAGES = ("es", "de", "fr", "tr", "sw")
CLFT = {
    "classification": "MassiveIntentClassification:{0} MassiveScenarioClassification:{0}",
    "summarization": "CLFT-SummEval-{0}",
    "clustering": "CLFT-RedditClustering-{0} CLFT-TwentyNewsgroupsClustering-{0}",
    "retrieval": "CLFT-SciFact-{0}",
    "sts": "CLFT-STS22-{0}",
    "reranking": "CLFT-MindSmallReranking-{0}",
    "pair classification": "CLFT-TwitterURLCorpus-{0}",
}
"""CLFT's table (Campbell and Hathaway 2023), by column: tasks of mteb, and of mteb_clft.py."""


@dataclass(frozen=True)
class Choice:
    """The tasks that --tasks names.

    Attributes:
        tasks: In order, each once.
        means: Name of a mean, and the tasks that it is of.
        benchmark: The table, where one was asked for.
    """

    tasks: tuple[Task, ...]
    means: dict[str, tuple[Task, ...]]
    benchmark: str | None


def chosen_tasks(wanted: Sequence[str]) -> Choice:
    """Tasks by name (`STS12`, `STS22:fr`), or those of one or several tables (`table4`, `table27`, `clft`),
    which must be there; whether a task's name is one, mteb says."""
    if not wanted:
        raise MexmaError("--tasks names no task")
    tasks: dict[Task, None] = {}
    means: dict[str, tuple[Task, ...]] = {}
    for word in wanted:
        columns = _columns(word)
        for column, members in (columns or {"": _tasks(word)}).items():
            tasks |= dict.fromkeys(members)
            if columns:
                means[column if len(wanted) == 1 else f"{word} {column}"] = members
    benchmark = f"mteb-{wanted[0].lower()}" if len(wanted) == 1 and means else None
    return Choice(tuple(tasks), means, benchmark)


def _columns(word: str) -> dict[str, tuple[Task, ...]]:
    """The columns of means of a table, and the tasks of each; {}: `word` is a task's name."""
    word = word.lower()
    languages = {"clft": CLFT_LANGUAGES} | {f"clft-{code}": (code,) for code in CLFT_LANGUAGES}
    if word in languages:
        return _clft(languages[word])
    if not word.startswith("table"):
        return {}
    number = int(word[5:]) if word[5:].isdigit() else 0
    if number == 17:
        raise MexmaError("Table 17 is SentEval, which is not in mteb", "mexma eval senteval")
    if number not in TABLES and number not in GROUPS:
        known = ", ".join((*languages, *(f"table{n}" for n in (*GROUPS, *TABLES))))
        raise MexmaError(f"--tasks {word}: no such list of tasks", f"there are {known}")
    return {column: TABLES[table] for column, table in GROUPS.get(number, {"score": number}).items()}


def _clft(languages: Sequence[str]) -> dict[str, tuple[Task, ...]]:
    """The columns of CLFT's table for some of its languages. STS22 has no Swahili, where the table has 0."""
    return {
        column: tuple(
            task
            for code in languages
            if (column, code) != ("sts", "sw")
            for task in _tasks(names.format(code))
        )
        for column, names in CLFT.items()
        if column != "sts" or tuple(languages) != ("sw",)
    }
