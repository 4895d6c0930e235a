"""What mexma does not compute is run by sentence-transformers: its vectors, in the same stores."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, processors
from transformers import XLMConfig, XLMModel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.sentence_transformer import sentence_transformer
from mexma_cli.errors import MexmaError
from mexma_cli.stages.embed.embed import embed_file
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import ok, run, write
from tests.encoder.conftest import (
    WEIGHTS,
    WIDTH,
    change_json,
    change_modules,
    modules_json,
    pieces,
    pooling_json,
)
from tests.encoder.conftest import write as write_json
from tests.encoder.loading.test_folder import Hub, empty_cache, server
from tests.encoder.test_refused import own_code, own_modules
from tests.stores import shards_of

__all__ = ["empty_cache", "own_modules", "server"]  # fixtures

pytestmark = pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs it")
DENSE, POOL = "2_Dense/config.json", "1_Pooling/config.json"


def library() -> Any:
    import sentence_transformers

    return sentence_transformers


STATES = {"method": "forward", "method_output_name": "last_hidden_state", "format": "flat"}


def token_types(folder: Path) -> None:
    """Type 1 for every token, as for the second text of a pair."""
    names = ["input_ids", "token_type_ids", "attention_mask"]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names}
    change_json("tokenizer_config.json", **settings)(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    single, special = "[CLS]:1 $A:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    tokenizer.save(str(folder / "tokenizer.json"))


ONLY_THERE: dict[str, Callable[[Path], object]] = {
    "by root": change_json(POOL, pooling_mode="mean_sqrt_len_tokens"),
    "prompt left out": change_json(POOL, include_prompt=False),
    "two poolings": change_modules(lambda entries: entries.append(entries[1])),
    "activation": change_json(DENSE, activation_function="torch.nn.modules.activation.SiLU"),
    "of tokens": change_json(DENSE, module_input_name="token_embeddings"),
    "decoder": change_json("config.json", is_decoder=True),
    "token types": lambda folder: token_types(folder),
    "rotations": change_json("config.json", rope_scaling={"type": "dynamic", "factor": 2.0}),
    "no mask": change_json("tokenizer_config.json", model_input_names=["input_ids"]),
    "left padding": change_json("tokenizer_config.json", padding_side="left"),
    "messages": lambda folder: (
        change_json("sentence_bert_config.json", modality_config=dict.fromkeys(("text", "message"), STATES))(
            folder
        ),
        change_json("sentence_bert_config.json", module_output_name="token_embeddings")(folder),
        change_json("tokenizer_config.json", chat_template="{{ messages[-1]['content'] }}!")(folder),
    ),
    "truncated": lambda folder: (
        change_json(DENSE, activation_function="torch.nn.modules.activation.SiLU")(folder),
        change_json("config_sentence_transformers.json", truncate_dim=8)(folder),
    ),
    "no special tokens": lambda folder: (
        change_json("tokenizer.json", post_processor=None)(folder),
        change_json("tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")(folder),
    ),
    "one name": change_modules(lambda entries: entries[3].update(name="2")),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if n % 3 else ()) for n, case in enumerate(ONLY_THERE)]
)
def test_settings_that_mexma_does_not_have(
    case: str, copy: Callable[[str], Path], texts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = copy("labse")
    if case != "no special tokens":  # with a prompt there would be tokens
        prompts = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
        write_json(folder / "config_sentence_transformers.json", prompts)
    ONLY_THERE[case](folder)
    texts = [*texts, *(text[:n] for n in (5, 3, 4) for text in texts)]  # where one length fills a batch
    theirs = library().SentenceTransformer(str(folder), device="cpu").encode(texts)
    with caplog.at_level("INFO"):
        encoder = SentenceEncoder.load(str(folder), "cpu", max_tokens=256)
    (said,) = [line for line in caplog.messages if "run by sentence-transformers, since mexma" in line]
    assert said.startswith(str(folder))
    np.testing.assert_allclose(encoder.embed(texts), theirs, atol=1e-5)
    if case not in ("left padding", "no mask"):  # where a vector depends on the longest sentence of the batch
        np.testing.assert_allclose(encoder.embed([""])[0], theirs[texts.index("")], atol=1e-5)
    assert encoder.embed([]).shape == (0, encoder.dim) and encoder.dim == theirs.shape[1]
    assert encoder.truncated == 2
    with pytest.raises(MexmaError, match="with the pooling of its folder"):
        SentenceEncoder.load(str(folder), "cpu", pooling="max")
    with pytest.raises(MexmaError, match="and only embeds"):
        encoder.check_packs("training")
    assert np.array_equal(sentence_transformer(folder).encode(texts), theirs)


def xlm(folder: Path, texts: list[str]) -> None:
    """Of a family that mexma has nothing of."""
    folder.mkdir()
    torch.manual_seed(7)
    shape: dict[str, Any] = {"emb_dim": WIDTH, "n_layers": 2, "n_heads": 4, "n_langs": 1}
    shape |= {"init_std": 0.3, "embed_init_std": 0.3}
    ids = {"bos_index": 0, "pad_index": 1, "eos_index": 2, "unk_index": 3, "pad_token_id": 1}
    XLMModel(XLMConfig(vocab_size=pieces(folder, texts), **shape, **ids)).save_pretrained(folder)
    modules_json(folder, "Transformer", "Pooling", "Normalize")
    pooling_json(folder, "mean_tokens")
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 60})


def test_another_family_by_the_commands(texts: list[str], tmp_path: Path) -> None:
    folder, stores = tmp_path / "xlm", [tmp_path / f"{name}.emb" for name in "ab"]
    xlm(folder, texts)
    corpora = [write(tmp_path / f"{name}.txt", *texts[start::2]) for start, name in enumerate("ab")]
    for corpus, store in zip(corpora, stores, strict=True):
        done = ok(run("embed", "--model", folder, "--dtype", "fp32", corpus, "-o", store))
        assert "the model type 'xlm' is not supported" in done.stderr
        assert done.stderr.count("run by sentence-transformers") == 1
    assert "the sentence-transformers library" in ok(run("info", folder)).stdout
    ok(run("mine", *stores))
    ok(run("mine", corpora[0], stores[1], "--dtype", "fp32"))
    again = SentenceEncoder.load(str(folder), "cpu")
    assert f'"fingerprint": "{again.fingerprint}"' in (stores[0] / "manifest.json").read_text()
    with pytest.raises(MexmaError, match="its Normalize included"):
        again.keep_lengths()
    near = SentenceEncoder.load(str(folder), "cpu", "bfloat16")
    found = np.einsum("nd,nd->n", near.embed(texts), again.embed(texts))
    assert 0.99 < found.min() < 1 - 1e-6


@shards_of(8)
def test_a_killed_run_goes_on_to_the_same_bytes(texts: list[str], tmp_path: Path) -> None:
    xlm(tmp_path / "xlm", texts)
    encoder = SentenceEncoder.load(tmp_path / "xlm", "cpu")
    corpus = write(tmp_path / "corpus.txt", *texts)

    def stop(rows: int, *_: int) -> None:
        if rows > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_file(encoder, corpus, tmp_path / "a.emb", on_progress=stop)
    embed_file(encoder, corpus, tmp_path / "b.emb")
    embed_file(encoder, corpus, tmp_path / "a.emb")
    files = [sorted((tmp_path / f"{name}.emb").glob("vectors*")) for name in "ab"]
    assert len(files[0]) == 3
    assert [a.read_bytes() for a in files[0]] == [b.read_bytes() for b in files[1]]


def test_weights_that_are_missing_are_not_made_up(texts: list[str], tmp_path: Path) -> None:
    xlm(tmp_path / "xlm", texts)
    path = tmp_path / "xlm" / "model.safetensors"
    weights = load_file(path)
    del weights["attentions.1.out_lin.weight"]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(MexmaError, match="the model type 'xlm' is not supported") as caught:
        SentenceEncoder.load(tmp_path / "xlm", "cpu")
    assert caught.value.hint == (
        "sentence-transformers cannot load it either: "
        "1 weights are missing or have another shape, such as attentions.1.out_lin.weight"
    )


def test_without_the_library_the_extra_is_named(
    texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xlm(tmp_path / "xlm", texts)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MexmaError, match="the model type 'xlm' is not supported") as caught:
        SentenceEncoder.load(tmp_path / "xlm", "cpu")
    assert "pip install" in (caught.value.hint or "")


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation_internal"])
def test_the_library_fetches_no_code_either(key: str, texts: list[str], tmp_path: Path) -> None:
    for file, content in (("config.json", {key: "owner/kernels"}), ("config.json", {"sub": {key: "o/k"}})):
        xlm(tmp_path / "xlm", texts)
        change_json(file, **content)(tmp_path / "xlm")
        with pytest.raises(MexmaError, match=rf"another page of the hub \(`{key}`\)"):
            SentenceEncoder.load(tmp_path / "xlm", "cpu")
        shutil.rmtree(tmp_path / "xlm")


PACKS = """
from transformers import BertModel

class Own(BertModel):
    pass
"""
NARROW = """
from transformers import BertModel

class Own(BertModel):
    def get_input_embeddings(self):
        raise NotImplementedError

    def forward(self, input_ids, attention_mask=None, **_):
        return super().forward(input_ids, attention_mask)
"""
MASKED = """
from transformers import BertModel

class Own(BertModel):
    def forward(self, input_ids, attention_mask=None, **others):
        if attention_mask is not None:
            attention_mask = attention_mask.clone()
            attention_mask[:, 1] = 0
        return super().forward(input_ids, attention_mask, **others)
"""
EXPERTS = """
import torch
from transformers import BertModel

class Own(BertModel):
    def __init__(self, config):
        super().__init__(config, add_pooling_layer=False)
        self.router = torch.nn.Linear(config.hidden_size, 3, bias=False)
        self.experts = torch.nn.Parameter(torch.zeros(3, config.hidden_size, config.hidden_size))

    def forward(self, input_ids, attention_mask=None, **_):
        found = super().forward(input_ids, attention_mask)
        weights, chosen = self.router(found.last_hidden_state).softmax(-1).topk(2)
        inner = torch.einsum("bli,bleij->blej", found.last_hidden_state, self.experts[chosen])
        found.last_hidden_state = torch.einsum("ble,bled->bld", weights, inner)
        return found
"""
FLIPPED = """
import torch
from sentence_transformers.sentence_transformer.modules import Pooling

class Flipped(Pooling):
    def forward(self, features):
        features = super().forward(features)
        features["sentence_embedding"] = features["sentence_embedding"].flip(1)
        return features
"""
ADAPTED = """
from sentence_transformers.sentence_transformer.modules import Transformer

class Adapted(Transformer):
    def forward(self, features, task=None):
        features = super().forward(features)
        if task:
            features["token_embeddings"][..., self.auto_model.config.lora_adaptations.index(task)] += 9
        return features
"""


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(NARROW, id="narrow"),
        pytest.param(MASKED, id="masked"),
        pytest.param(EXPERTS, id="experts", marks=pytest.mark.slow),
    ],
)
def test_a_folders_own_code_is_run_if_it_is_trusted(
    code: str, copy: Callable[[str], Path], texts: list[str], own_modules: None
) -> None:
    """Code that does not attend as mexma does, and a module of its own."""
    folder = copy("labse")
    own_code(folder, code)
    if code is EXPERTS:  # nomic-embed-v2's kind
        more = {"router.weight": torch.randn(3, WIDTH), "experts": torch.randn(3, WIDTH, WIDTH)}
        save_file(load_file(folder / WEIGHTS) | more, folder / WEIGHTS, {"format": "pt"})
    (folder / "custom_st.py").write_text(FLIPPED)
    change_modules(lambda entries: entries[1].update(type="custom_st.Flipped"))(folder)
    with pytest.raises(MexmaError, match=r"custom_st.Flipped\) is Python code of its own"):
        SentenceEncoder.load(folder, "cpu")
    theirs = library().SentenceTransformer(str(folder), device="cpu", trust_remote_code=True).encode(texts)
    encoder = SentenceEncoder.load(folder, "cpu", max_tokens=256, trust_remote_code=True)
    np.testing.assert_allclose(encoder.embed(texts), theirs, atol=1e-5)


def with_adapters(folder: Path) -> None:
    """As jina-embeddings-v3, whose own module takes the task."""
    (folder / "custom_st.py").write_text(ADAPTED)
    change_modules(lambda entries: entries[0].update(type="custom_st.Adapted", kwargs=["task"]))(folder)
    change_json("config.json", lora_adaptations=["query", "document"])(folder)


def with_routes(folder: Path) -> None:
    """One model for queries, and another one for documents."""
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sentence_transformer.modules import Dense

    whole = library().SentenceTransformer(str(folder), device="cpu")
    routes = {name: [*list(whole)[:3], Dense(24, 8)] for name in ("query", "document")}
    shutil.rmtree(folder)
    model = library().SentenceTransformer(modules=[Router(routes, default_route="document")], device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)


@pytest.mark.parametrize("change", [with_adapters, pytest.param(with_routes, marks=pytest.mark.slow)])
def test_a_task_is_chosen_by_its_name(
    change: Callable[[Path], object],
    copy: Callable[[str], Path],
    texts: list[str],
    tmp_path: Path,
    own_modules: None,
) -> None:
    folder = copy("labse")
    change(folder)
    theirs = library().SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
    corpus = write(tmp_path / "corpus.txt", *texts)
    given = ("--model", folder, "--trust-remote-code", "--dtype", "fp32", "--store-dtype", "float32")
    given = (*given, "--max-tokens", "encoder")
    for task in ("query", None):
        store = tmp_path / f"{task}.emb"
        done = ok(run("embed", *given, corpus, "-o", store, *(("--task", task) if task else ())))
        assert (f"for the task {task}" if task else "for no --task of query, document") in done.stderr
        expected = theirs.encode(texts, task=task)
        np.testing.assert_allclose(EmbeddingStore.open(store).vectors(0, len(texts)), expected, atol=1e-5)
    assert "different encoders" in run("mine", tmp_path / "query.emb", tmp_path / "None.emb").stderr
    found = run("embed", *given, corpus, "-o", tmp_path / "x.emb", "--task", "other")
    assert "has nothing for the task 'other'" in found.stderr and "one of query, document" in found.stderr
    done = ok(run("search", corpus, corpus, *given[:3], "--task", "query", "--query-prompt", "Q: "))
    assert "for the task query" in done.stderr


def test_adapters_beside_the_weights_are_named(
    copy: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = copy("e5")
    write_json(folder / "retrieval_query" / "adapter_config.json", {"peft_type": "LORA"})
    with caplog.at_level("INFO"):
        SentenceEncoder.load(folder, "cpu")
    assert "the adapters in it are not applied (retrieval_query): merge one into" in caplog.text


def test_threads_take_turns_with_the_library(
    copy: Callable[[str], Path], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy("labse")
    ONLY_THERE["activation"](folder)
    encoder = SentenceEncoder.load(folder, "cpu", max_tokens=20)
    expected, encode, inside = encoder.embed(texts), library().SentenceTransformer.encode, Lock()

    def alone(*given: Any, **named: Any) -> Any:
        assert inside.acquire(blocking=False)
        time.sleep(0.02)
        inside.release()
        return encode(*given, **named)

    monkeypatch.setattr(library().SentenceTransformer, "encode", alone)
    with ThreadPoolExecutor(3) as threads:
        for found in threads.map(encoder.embed, [texts] * 3):
            assert np.array_equal(found, expected)


@pytest.mark.usefixtures("empty_cache", "server", "own_modules")
def test_code_of_another_page_is_run_at_its_commit(
    copy: Callable[[str], Path], texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, folder = tmp_path / "page", copy("labse")
    expected = SentenceEncoder.load(folder, "cpu").embed(texts)
    own_code(folder, "")
    (folder / "modeling_own.py").unlink()
    for number, source in enumerate((PACKS, NARROW)):
        name = f"owner/page{number}"
        (page / str(number)).mkdir(parents=True)
        (page / str(number) / f"modeling{number}.py").write_text(source)
        monkeypatch.setitem(Hub.repositories, name, page / str(number))
        change_json("config.json", auto_map={"AutoModel": f"{name}--modeling{number}.Own"})(folder)
        with pytest.raises(MexmaError, match=r"another page of the hub \(`auto_map`\)") as caught:
            SentenceEncoder.load(folder, "cpu", trust_remote_code=True)
        assert "--code-revision COMMIT" in (caught.value.hint or "")
        with pytest.raises(MexmaError, match="a commit has 40 letters and digits"):
            SentenceEncoder.load(folder, "cpu", trust_remote_code=True, code_revision="main")
        encoder = SentenceEncoder.load(folder, "cpu", trust_remote_code=True, code_revision=Hub.sha)
        np.testing.assert_allclose(encoder.embed(texts), expected, atol=1e-5)
        assert f"{name}/resolve/{Hub.sha}/modeling{number}.py" in Hub.asked
    change_json("config.json", model_type="own")(folder)
    with pytest.raises(MexmaError, match="own Python code"):
        SentenceEncoder.load(folder, "cpu", code_revision=Hub.sha)
