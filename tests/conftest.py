"""Fixtures for all tests: the shared reference files, and an encoder small enough to use everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

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


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference numbers and text that the project was built with."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared (reference fixtures and text), which is not part of the repository")
    return folder


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

    from mexma_cli.recipe import TrainTokenizer
    from mexma_cli.stages.tokenizer import train_tokenizer

    text = [sentence for side in SENTENCES.values() for sentence in side]
    tokenizer = train_tokenizer(TrainTokenizer(vocabulary=300), lambda: iter(text))
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
