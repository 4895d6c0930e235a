"""SentEval's protocols against their own code written out with scikit-learn, and its files."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.senteval import (
    PENALTIES,
    Examples,
    Features,
    check_classes,
    pair_features,
    protocol,
    read_task,
    run_task,
)
from tests.evaluation.given import put

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="pip install '.[eval]'")


def part(rows: int, seed: int, classes: int = 2) -> Features:
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, size=rows)
    return Features((random.normal(size=(rows, 6)) + labels[:, None] / 2).astype(np.float32), labels)


def inner_kfold_classifier(data: Features, k: int) -> float:
    """SentEval's validation.py, InnerKFoldClassifier.run with usepytorch false, but for the solver."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    X, y, results = data.vectors, data.classes, []
    skf = StratifiedKFold(n_splits=k, shuffle=True, random_state=1111)
    innerskf = StratifiedKFold(n_splits=k, shuffle=True, random_state=1111)
    regs = [2**t for t in range(-2, 4, 1)]
    for train_idx, test_idx in skf.split(X, y):
        scores = []
        for reg in regs:
            regscores = []
            for inner_train, inner_test in innerskf.split(X[train_idx], y[train_idx]):
                clf = LogisticRegression(C=reg, max_iter=1000)
                clf.fit(X[train_idx][inner_train], y[train_idx][inner_train])
                regscores.append(clf.score(X[train_idx][inner_test], y[train_idx][inner_test]))
            scores.append(round(100 * np.mean(regscores), 2))
        clf = LogisticRegression(C=regs[int(np.argmax(scores))], max_iter=1000)
        clf.fit(X[train_idx], y[train_idx])
        results.append(100 * clf.score(X[test_idx], y[test_idx]))
    return float(np.mean(results))


def test_folds_in_folds_are_sentevals() -> None:
    data = part(120, 0)
    calls: list[int] = []
    found = run_task("MR", {"all": data}, kfold=3, on_fit=lambda: calls.append(1))
    assert found["accuracy"] == pytest.approx(inner_kfold_classifier(data, 3))
    assert found["f1"] is None
    assert len(calls) == protocol("MR", {"all"}, 3).fits == 3 * (3 * len(PENALTIES) + 1)


def kfold_classifier(train: Features, test: Features, k: int) -> np.ndarray:
    """SentEval's validation.py, KFoldClassifier.run: its penalties are not those of the other two."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    X, y, scores = train.vectors, train.classes, []
    skf = StratifiedKFold(n_splits=k, shuffle=True, random_state=1111)
    regs = [2**t for t in range(-1, 6, 1)]
    for reg in regs:
        scanscores = []
        for train_idx, test_idx in skf.split(X, y):
            clf = LogisticRegression(C=reg, max_iter=1000).fit(X[train_idx], y[train_idx])
            scanscores.append(clf.score(X[test_idx], y[test_idx]))
        scores.append(round(100 * np.mean(scanscores), 2))
    best = LogisticRegression(C=regs[int(np.argmax(scores))], max_iter=1000).fit(X, y)
    return np.asarray(best.predict(test.vectors))


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_folds_then_test_is_sentevals(scale: float) -> None:
    from sklearn.metrics import f1_score

    parts = [part(150, 1), part(200, 2)]
    train, test = (Features(one.vectors * scale, one.classes) for one in parts)
    expected = kfold_classifier(train, test, 3)
    calls: list[int] = []
    found = run_task("MRPC", {"train": train, "test": test}, kfold=3, on_fit=lambda: calls.append(1))
    assert found["accuracy"] == pytest.approx(100 * np.mean(expected == test.classes))
    assert found["f1"] == pytest.approx(100 * f1_score(test.classes, expected))
    assert len(calls) == protocol("MRPC", {"train", "test"}, 3).fits == 3 * 7 + 1


def test_sst2_chooses_its_penalty_on_dev() -> None:
    from sklearn.linear_model import LogisticRegression

    train, dev, test = part(80, 3), part(50, 4), part(70, 5)
    models = [LogisticRegression(C=c, max_iter=1000).fit(train.vectors, train.classes) for c in PENALTIES]
    best = max(models, key=lambda model: model.score(dev.vectors, dev.classes))  # the first of equals
    found = run_task("SST2", {"train": train, "dev": dev, "test": test}, kfold=10)
    assert found["accuracy"] == pytest.approx(100 * best.score(test.vectors, test.classes))


def test_six_classes() -> None:
    assert run_task("TREC", {"train": part(300, 6, 6), "test": part(60, 7, 6)}, kfold=2)["accuracy"] > 20


def test_only_a_whole_task_is_as_published() -> None:
    assert protocol("SST2", {"train", "dev", "test"}, 10).as_published
    assert protocol("TREC", {"train", "test"}, 10).as_published
    assert protocol("MR", {"all"}, 10).as_published
    for task, splits in (("SST2", {"train", "dev"}), ("SST2", {"train", "test"}), ("TREC", {"train"})):
        assert not protocol(task, splits, 10).as_published


def test_a_class_that_is_too_rare_for_the_folds() -> None:
    labels = Examples(labels=["1"] * 5 + ["0"] * 25)
    with pytest.raises(MexmaError, match="CR: a class has 5 examples, too few for 3 folds") as caught:
        check_classes("CR", {"all": labels}, kfold=3)
    assert caught.value.hint == "use --kfold 2 or less"
    splits = {"train": labels, "test": Examples()}  # folds that are not cut again need fewer
    check_classes("TREC", splits, kfold=5)
    rare = Features(np.ones((30, 2)), np.array([1] * 5 + [0] * 25))
    test = Features(np.ones((4, 2)), np.array([0, 1, 0, 1]))
    assert run_task("TREC", {"train": rare, "test": test}, kfold=5)["accuracy"] == 50
    with pytest.raises(MexmaError, match="TREC: a class has 5 examples, too few for 6 folds"):
        check_classes("TREC", splits, kfold=6)


def test_features_of_pairs() -> None:
    found = pair_features(np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]]))
    assert found.tolist() == [[2.0, 3.0, 3.0, -2.0]]


def test_sentevals_own_files(tmp_path: Path) -> None:
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    files = {
        "MR/rt-polarity.pos": "good .\nfine .\n",
        "MR/rt-polarity.neg": "bad .\n",
        "SST/binary/sentiment-train": "good\t1\nbad\t0\n",
        "TREC/train_5500.label": "DESC:manner How ?\nENTY:cremat What ?\n",
        "MRPC/msr_paraphrase_test.txt": header + '1\t7\t8\tHe "said".\tHe said.\n0\t1\t2\ta\tb\n',
    }
    put(tmp_path, files)
    polarity = read_task("MR", [tmp_path])["all"]
    assert (polarity.labels, polarity.sentences) == (["0", "1", "1"], ["bad .", "good .", "fine ."])
    assert read_task("SST2", [tmp_path])["train"].labels == ["1", "0"]
    questions = read_task("TREC", [tmp_path])["train"]
    assert (questions.labels, questions.sentences) == (["DESC", "ENTY"], ["How ?", "What ?"])
    pairs = read_task("MRPC", [tmp_path])["test"]
    assert (pairs.sentences, pairs.seconds) == (['He "said".', "a"], ["He said.", "b"])
    assert read_task("CR", [tmp_path]) == {}


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_trec_is_not_utf8(tmp_path: Path, packed: str) -> None:
    (tmp_path / "TREC").mkdir()
    content = b"DESC:manner How ?\nLOC:city What is the sister\xf0city ?\r\n"
    file = tmp_path / f"TREC/train_5500.label{packed}"
    file.write_bytes(gzip.compress(content) if packed else content)
    assert read_task("TREC", [tmp_path])["train"].sentences == ["How ?", "What is the sister\xf0city ?"]
    if packed:
        file.write_bytes(file.read_bytes()[:-12])
        with pytest.raises(MexmaError, match=r"train_5500.label.gz is damaged or cut short"):
            read_task("TREC", [tmp_path])


def test_tables_in_several_folders(tmp_path: Path) -> None:
    put(tmp_path, {"one/MPQA.tsv": "0\tcomplaining\n1\tglad\n", "mrpc/train.tsv": "0\ta\tb\n1\tc\td\n"})
    folders = [tmp_path / "one", tmp_path / "mrpc"]
    assert read_task("MPQA", folders)["all"].sentences == ["complaining", "glad"]
    assert read_task("MRPC", folders)["train"].seconds == ["b", "d"]
    assert read_task("MRPC", [tmp_path])["train"].seconds == ["b", "d"]
