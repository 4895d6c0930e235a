"""Fixtures for all tests: real text from outside, and an encoder small enough to use everywhere."""

from __future__ import annotations

import functools
import gc
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from mexma_cli import errors

# Other work on the machine must not make a test fail.
for name, examples in (("short", 25), ("long", 500)):
    hypothesis.settings.register_profile(
        name, deadline=None, max_examples=examples, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
hypothesis.settings.load_profile("short")  # unless pytest has --hypothesis-profile=long

gc.disable()  # until all is imported, which then is looked through no more

ROOT = Path(__file__).parent.parent


def _use_memory(folder: str = "/dev/shm") -> None:
    """Temporary files in memory, if it has room for them and TMPDIR names no other folder.

    What mexma writes is synced to the disk, for which the tests would wait minutes.
    """
    if "TMPDIR" not in os.environ and os.access(folder, os.W_OK):
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize > 4 << 30 and not disk.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"], tempfile.tempdir = folder, None


_use_memory()

_LONGEST_LINE = errors._LONGEST
errors._LONGEST = 4000  # how long the names of temporary folders are must not decide what a message holds


@pytest.fixture
def short_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of messages are cut as users see them."""
    monkeypatch.setattr(errors, "_LONGEST", _LONGEST_LINE)


SENTENCES = {
    "fra": [
        "La réunion commencera demain à neuf heures.",
        "Il pleut depuis trois jours et la rivière monte.",
        "Où se trouve la gare la plus proche ?",
        "Elle a vendu sa maison et acheté un bateau.",
        "Le médecin m'a dit de boire beaucoup d'eau.",
        "Nous avons oublié les clés dans la voiture.",
        "Ce livre est plus intéressant que le film.",
        "Mon frère travaille dans une boulangerie.",
    ],
    "eng": [
        "The meeting will start tomorrow at nine o'clock.",
        "It has been raining for three days and the river is rising.",
        "Where is the nearest railway station?",
        "She sold her house and bought a boat.",
        "The doctor told me to drink a lot of water.",
        "We left the keys in the car.",
        "This book is more interesting than the film.",
        "My brother works in a bakery.",
    ],
}
"""Line n of one is the translation of line n of the other."""


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "shared" in getattr(item, "fixturenames", ()):
            item.add_marker("shared")
        if item.config.pluginmanager.hasplugin("xdist"):
            item.add_marker(pytest.mark.xdist_group(_group(item.path, getattr(item, "module", None))))


@functools.cache
def _group(path: Path, module: Any) -> str:
    """What one worker does: a file, whose fixtures are made once, or all that needs one warm process."""
    if path.is_relative_to(ROOT / "tests" / "faults"):
        return "faults"
    taken = vars(module).values() if module else ()
    forks = any(getattr(value, "__module__", "") == "tests.processes" for value in taken)
    return "processes" if forks else str(path.relative_to(ROOT))


def pytest_collection_finish(session: pytest.Session) -> None:
    if getattr(session.config.option, "loadgroup", False) and session.items:
        assert "@" in session.items[0].nodeid, "this pytest-xdist does not group tests with this pytest"
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real text that the project was built with."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the text of ../shared, which is not part of the repository")
    return folder


@pytest.fixture(scope="session", autouse=True)
def compile_in_silence() -> None:
    """The first test in a new clone that uses compiled loops waits for them; its stderr does not say so."""
    from mexma_cli.numerics import compiling

    compiling._FirstUse.told = True


@pytest.fixture(scope="session", autouse=True)
def mini_is_parsed_once() -> Iterator[None]:
    """Its tokeniser and its n-grams, which nothing changes; else a test on a few lines does little else."""
    from mexma_cli.encoder.loading.folder import BUNDLED
    from mexma_cli.encoder.loading.tokenizer import LazyTokenizer
    from mexma_cli.encoder.ngrams import NgramEmbeddings

    kept: dict[str, Any] = {}

    def once(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
        def reads(folder: Path, *other: Any) -> Any:
            if folder != BUNDLED / "mini":
                return read(folder, *other)
            if name not in kept:
                kept[name] = read(folder, *other)
            return kept[name]

        return reads

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((LazyTokenizer, "plain"), (NgramEmbeddings, "load")):
            patch.setattr(owner, name, once(name, getattr(owner, name)))
        yield


@pytest.fixture(scope="session")
def sentences() -> dict[str, list[str]]:
    """Eight French sentences (`fra`) and their translations (`eng`)."""
    return SENTENCES


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained XLM-R (2 layers, width 32, 4 heads, CLS pooling, 64 tokens at most).

    It is written by transformers itself, with the files of sentence-transformers beside it.
    """
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaModel

    from mexma_cli.objectives.bag.tokenizer import train_tokenizer
    from mexma_cli.settings.training import TrainTokenizer
    from tests.examples import weighed

    text = [sentence for side in SENTENCES.values() for sentence in side]
    tokenizer = train_tokenizer(TrainTokenizer(vocabulary=300), lambda: weighed(text))
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=66,
        type_vocab_size=1,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    pooling = {
        "word_embedding_dimension": 32,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    }
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    files = {
        "1_Pooling/config.json": pooling,
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": 64, "do_lower_case": False},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    return folder


def same_every_time(tokenizer: Any) -> Any:
    """A Unigram tokeniser, its pieces sorted and all as likely: the trainer's differ from run to run."""
    from tokenizers import models

    special = tokenizer.all_special_tokens
    pieces = [(piece, -10.0) for piece in sorted(set(tokenizer.get_vocab()) - set(special))]
    first = sorted(set(special) - {"<mask>"}, key=tokenizer.convert_tokens_to_ids)
    tokenizer.backend_tokenizer.model = models.Unigram(
        [*((token, 0.0) for token in first), *pieces], unk_id=3
    )
    return tokenizer


@pytest.fixture(scope="session")
def masked_lms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of untrained masked-LM checkpoints (4 layers, width 32), by their model type.

    `xlm-roberta` and `bert`, each with its head, and with the way in which its tokeniser joins two sentences.
    """
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import (
        BertConfig,
        BertForMaskedLM,
        PreTrainedTokenizerFast,
        XLMRobertaConfig,
        XLMRobertaForMaskedLM,
    )

    from mexma_cli.objectives.bag.tokenizer import train_tokenizer
    from mexma_cli.settings.training import TrainTokenizer
    from tests.examples import weighed

    text = [sentence for side in SENTENCES.values() for sentence in side]
    pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces.train_from_iterator(text, trainers.WordPieceTrainer(vocab_size=300, special_tokens=special))
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    tokenizers = {
        "xlm-roberta": same_every_time(
            train_tokenizer(TrainTokenizer(vocabulary=300), lambda: weighed(text))
        ),
        "bert": PreTrainedTokenizerFast(tokenizer_object=pieces, **dict(zip(names, special, strict=True))),
    }
    kinds = {
        "xlm-roberta": (XLMRobertaConfig, XLMRobertaForMaskedLM, {"max_position_embeddings": 98}),
        "bert": (BertConfig, BertForMaskedLM, {"max_position_embeddings": 96, "pad_token_id": 0}),
    }
    folders = {}
    for name, (config, model, settings) in kinds.items():
        torch.manual_seed(0)
        folders[name] = tmp_path_factory.mktemp("masked-lm") / name
        shape = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64}
        made = model(config(vocab_size=len(tokenizers[name]), initializer_range=0.3, **shape, **settings))
        with torch.no_grad():
            made.get_output_embeddings().bias.normal_()
        made.save_pretrained(folders[name])
        tokenizers[name].save_pretrained(folders[name])
    return folders


@pytest.fixture
def two_threads() -> Iterator[None]:
    """torch, and our own loops with it, on two threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def make_store() -> Callable[..., Path]:
    """Write an embedding store of any vectors: (path, float [N, dim], language, **of the manifest)."""
    from mexma_cli.store.layout import Source
    from tests import stores

    def make(path: Path, vectors: np.ndarray, language: str, **other: Any) -> Path:
        settings = {
            "encoder": "some encoder",
            "fingerprint": "f" * 32,
            "language": language,
            "source": Source(path=path.name, checksum=path.name, lines=len(vectors)),
            "argv": ["mexma", "embed"],
            "rows_per_shard": 7,
        }
        sentences = [f"{language} {row}" for row in range(len(vectors))]
        return stores.make_store(path, sentences, vectors, **(settings | other)).path

    return make
