"""What an encoder's folder may not ask for: refused by name, and no code of it is run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from tests.encoder.conftest import DENSE_BIN, WEIGHTS, WIDTH, change_json, change_modules, cut_off, write


def other_dense(folder: Path) -> None:
    save_file(
        {"linear.weight": torch.zeros(24, 7), "linear.bias": torch.zeros(24)}, folder / "2_Dense" / WEIGHTS
    )


DENSE, POOL, LIMIT = "2_Dense/config.json", "1_Pooling/config.json", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "two": (change_json(POOL, pooling_mode=["cls", "mean"]), r"pooling 'cls\+mean' is not supported"),
    "two by flags": (
        change_json(POOL, pooling_mode_mean_tokens=True),
        r"pooling 'cls_token\+mean_tokens' is not supported",
    ),
    "no pooling config": (lambda f: (f / POOL).unlink(), "the pooling's config.json is not there"),
    "no pooling": (change_modules(lambda m: m.pop(1)), "modules Transformer, Dense, Normalize are not"),
    "own module": (
        change_modules(lambda m: m[3].update(type="custom_st.Normalize")),
        r"the module 'Normalize' \(custom_st.Normalize\) is Python code of its own, .* not run unasked",
    ),
    "sparse module": (
        change_modules(lambda m: m[1].update(type="sentence_transformers.sparse_encoder.modules.Pooling")),
        "the module 'Pooling' .*sparse_encoder.* is none of sentence encoders",
    ),
    "another module": (
        change_modules(lambda m: m[3].update(type="sentence_transformers.models.LSTM")),
        r"module 'LSTM' \(sentence_transformers.models.LSTM\)",
    ),
    "modules of another kind": (lambda f: write(f / "modules.json", [1]), "not a list of modules"),
    "own activation": (
        change_json(DENSE, activation_function="os.system"),
        "the activation 'os.system' is not supported",
    ),
    "residual": (change_json(DENSE, use_residual=True), "use_residual True is not supported"),
    "no sizes": (lambda f: write(f / DENSE, {}), "does not say in_features and out_features"),
    "no dense weights": (lambda f: (f / DENSE_BIN).unlink(), "2_Dense has no weights"),
    "other dense weights": (other_dense, "2_Dense: weights and config.json do not belong together"),
    "dense cut off": (cut_off(DENSE_BIN, 900), "pytorch_model.bin"),
    "other width": (
        lambda f: (change_json(DENSE, in_features=7)(f), other_dense(f)),
        rf"Dense\(7, 24, Tanh\) does not take vectors of {WIDTH} numbers",
    ),
    "task": (change_json(LIMIT, transformer_task="fill-mask"), "transformer_task 'fill-mask' is not supp"),
    "model arguments": (change_json(LIMIT, model_args={"foo": 1}), "model_args with foo is not supported"),
    "limit of nothing": (change_json(LIMIT, max_seq_length=0), "max_seq_length .* is 0"),
    "limit not a number": (
        change_json(LIMIT, max_seq_length="x"),
        "max_seq_length in sentence_bert_config.json is 'x'",
    ),
    "tokeniser elsewhere": (
        change_json(LIMIT, tokenizer_name_or_path="owner/words"),
        r"the tokeniser is elsewhere \(tokenizer_name_or_path\)",
    ),
    "limit a list": (lambda f: write(f / LIMIT, [1]), "sentence_bert_config.json: not a JSON object"),
    "a cross-encoder": (
        lambda f: write(f / PROMPTS, {"model_type": "CrossEncoder"}),
        "a CrossEncoder is not supported",
    ),
    "prompt unknown": (
        lambda f: write(f / PROMPTS, {"prompts": {}, "default_prompt_name": "query"}),
        "default_prompt_name is 'query', and prompts has none",
    ),
    "prompts in a list": (
        lambda f: write(f / PROMPTS, {"prompts": ["query: "], "default_prompt_name": "query"}),
        "config_sentence_transformers.json: prompts is not a JSON object",
    ),
    "prompt of no name": (
        lambda f: write(f / PROMPTS, {"prompts": {}, "default_prompt_name": ["query"]}),
        r"default_prompt_name is \['query'\], and prompts has none",
    ),
    "modalities in a list": (
        change_json(LIMIT, modality_config=["text"]),
        "sentence_bert_config.json: modality_config is not a JSON object",
    ),
    "quantised": (
        change_json("config.json", quantization_config={"load_in_8bit": True}),
        "config.json has a quantization_config, which is not supported",
    ),
    "a number in quotes": (
        change_json("config.json", hidden_size="32"),
        "cannot be loaded as an encoder: .*'hidden_size': TypeError: .* expected int, got str",
    ),
    **{
        f"{key} {value}": (change_json("config.json", **{key: value}), f"{key} {value}; at least 1 is needed")
        for key, value in (("num_hidden_layers", 0), ("num_attention_heads", -1))
    },
    "a width below nothing": (change_json("config.json", intermediate_size=-1), "negative dimension"),
    "no types": (
        change_json("config.json", type_vocab_size=0),
        "1 of the weights are missing or have another shape",
    ),
    "layers without end": (
        change_json("config.json", num_hidden_layers=10**9),
        "config.json describes a model of 8,192,000",
    ),
    "a variance below nothing": (
        change_json("config.json", layer_norm_eps=-1.0),
        r"layer_norm_eps -1\.0, which is negative or not finite",
    ),
    "family": (
        change_json("config.json", model_type="t5gemma"),
        "model type 't5gemma' is not supported",
    ),
    "a family that is a list": (
        change_json("config.json", model_type=["bert"]),
        r"model type \['bert'\] is not supported",
    ),
    "own code": (
        change_json("config.json", auto_map={"AutoModel": "modeling_own.Own"}, model_type="own"),
        r"brings its own Python code \(modeling_own.py\), which is not run unasked",
    ),
    "own code of two kinds": (
        change_json(
            "config.json",
            auto_map={"AutoTokenizer": ["words.Own", None], "AutoModel": "own.Own"},
            num_hidden_layers=3,
        ),
        r"own Python code \(own.py, words.py\), .* unasked; without it: .* 16 of the weights are missing",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_honoured_is_refused_by_name(case: str, copy: Callable[[str], Path]) -> None:
    change, message = REFUSED[case]
    folder = copy("labse")
    change(folder)
    with pytest.raises(MexmaError, match=message):
        SentenceEncoder.load(str(folder), "cpu")


def test_positions_without_room_are_refused_where_they_begin_behind_the_padding(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    """The first position is 2, so that 3 positions have room for one token only."""
    folder = shutil.copytree(tiny_encoder, tmp_path / "e")
    weights = load_file(folder / WEIGHTS)
    name = "embeddings.position_embeddings.weight"
    for positions in (1, 3):
        change_json("config.json", max_position_embeddings=positions)(folder)
        save_file(weights | {name: weights[name][:positions].contiguous()}, folder / WEIGHTS)
        with pytest.raises(
            MexmaError, match=f"takes {positions - 2} tokens, of which 2 are special: no room for a sentence"
        ):
            SentenceEncoder.load(str(folder), "cpu")


def test_a_limit_without_room_is_refused(tiny_encoder: Path) -> None:
    for few in (1, 2):
        with pytest.raises(MexmaError, match=f"a limit of {few} tokens has no room") as caught:
            SentenceEncoder.load(str(tiny_encoder), "cpu", max_tokens=few)
        assert caught.value.hint == "2 are special ones: --max-tokens 3 or more"
    assert SentenceEncoder.load(str(tiny_encoder), "cpu", max_tokens=3).max_tokens == 3


# Code in a folder is not run.


class Bomb:
    def __init__(self, crater: Path) -> None:
        self.crater = crater

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.crater,)


@pytest.mark.parametrize("where", ["", "2_Dense"])
def test_code_in_pickled_weights_is_not_run(where: str, copy: Callable[[str], Path], tmp_path: Path) -> None:
    folder, crater = copy("labse"), tmp_path / "crater"
    (folder / where / WEIGHTS).unlink(missing_ok=True)
    torch.save({"linear.weight": Bomb(crater)}, folder / where / "pytorch_model.bin")
    with pytest.raises(MexmaError, match="bring code along, which was not run"):
        SentenceEncoder.load(str(folder), "cpu")
    assert not crater.exists()
    torch.load(folder / where / "pytorch_model.bin", weights_only=False)
    assert crater.exists()  # it would have gone off


def test_pickled_weights_without_code_are_read(copy: Callable[[str], Path], texts: list[str]) -> None:
    folder = copy("labse")
    expected = SentenceEncoder.load(str(folder), "cpu")
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    assert SentenceEncoder.load(str(folder), "cpu").fingerprint == expected.fingerprint


OWN_CODE = """
from pathlib import Path
from transformers import BertModel
Path({crater!r}).touch()

class Own(BertModel):
    def forward(self, *arguments, **options):
        {change}
        return super().forward(*arguments, **options)
"""


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of folders is copied into the test's own place."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))


def own_code(folder: Path, source: str) -> None:
    (folder / "modeling_own.py").write_text(source, encoding="utf-8")
    change_json("config.json", auto_map={"AutoModel": "modeling_own.Own"})(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_of_another_page_of_the_hub_is_not_run(file: str, copy: Callable[[str], Path]) -> None:
    """It would be that page's newest, whatever revision of this one is pinned."""
    folder = copy("labse")
    own_code(folder, "")
    change_json(file, auto_map={"AutoModel": "owner/name--modeling_own.Own"})(folder)
    with pytest.raises(MexmaError, match="takes code from another page of the hub"):
        SentenceEncoder.load(str(folder), "cpu", trust_remote_code=True)


def test_own_code_is_run_when_it_is_asked_for(
    copy: Callable[[str], Path],
    texts: list[str],
    tmp_path: Path,
    own_modules: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = copy("labse")
    expected = SentenceEncoder.load(str(folder), "cpu").embed(texts)
    own_code(folder, OWN_CODE.format(crater=str(tmp_path / "crater"), change="pass"))
    with caplog.at_level("INFO"):
        without = SentenceEncoder.load(str(folder), "cpu").embed(texts)
    assert caplog.messages == [
        f"{folder}: its Python code (modeling_own.py) is not run: transformers has bert"
    ]
    assert np.array_equal(without, expected) and not (tmp_path / "crater").exists()
    encoder = SentenceEncoder.load(str(folder), "cpu", trust_remote_code=True)
    assert (tmp_path / "crater").exists()
    assert np.abs(encoder.embed(texts) - expected).max() < 1e-6


WITH_NUMBERS = """
import torch
from transformers import BertModel

class Own(BertModel):
    def __init__(self, config):
        super().__init__(config)
        self.scale = torch.nn.Parameter(torch.tensor(1.0))
        self.register_buffer("places", torch.arange(4000, 4003))
"""


def test_own_code_with_a_single_number_and_with_integers(
    copy: Callable[[str], Path], texts: list[str], tmp_path: Path, own_modules: None
) -> None:
    folder = copy("labse")
    expected = SentenceEncoder.load(str(folder), "cpu").embed(texts)
    own_code(folder, WITH_NUMBERS)
    numbers = {"scale": torch.tensor(1.0), "places": torch.arange(4000, 4003)}
    save_file(load_file(folder / WEIGHTS) | numbers, folder / WEIGHTS, {"format": "pt"})
    encoder = SentenceEncoder.load(str(folder), "cpu", trust_remote_code=True)
    assert np.abs(encoder.embed(texts) - expected).max() < 1e-6
    encoder.save(tmp_path / "saved", "bfloat16")
    assert torch.equal(load_file(tmp_path / "saved" / WEIGHTS)["places"], numbers["places"])
    assert "implementation" not in (tmp_path / "saved" / "config.json").read_text()


TOGETHER = OWN_CODE.format(
    crater=os.devnull, change="lengths, *rest = options['packed']; options['packed'] = (sum(lengths),), *rest"
)
NARROW = """
from transformers import BertModel

class Own(BertModel):
    def forward(self, input_ids, attention_mask=None):
        return super().forward(input_ids, attention_mask)
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (TOGETHER, "does not attend through transformers' AttentionInterface"),
        (NARROW, r"AttentionInterface \(.*unexpected keyword argument 'position_ids'\)"),
        ("import not_there\n", "cannot be loaded as an encoder: .* not found in your environment: not_there"),
        ("class Own(:\n", "cannot be loaded as an encoder: invalid syntax"),
    ],
    ids=["in its own way", "no positions", "a package that is not there", "no Python"],
)
def test_own_code_that_does_not_fit_is_told_by_a_message(
    source: str, message: str, copy: Callable[[str], Path], own_modules: None
) -> None:
    folder = copy("labse")
    own_code(folder, source)
    with pytest.raises(MexmaError, match=message):
        SentenceEncoder.load(str(folder), "cpu", trust_remote_code=True)


def test_the_fingerprint_is_of_the_modules_too(copy: Callable[[str], Path]) -> None:
    folder = copy("labse")
    found = [SentenceEncoder.load(str(folder), "cpu").fingerprint]
    weights = torch.load(folder / DENSE_BIN, weights_only=True)
    weights["linear.bias"][0] += 1
    torch.save(weights, folder / DENSE_BIN)
    found.append(SentenceEncoder.load(str(folder), "cpu").fingerprint)
    change_json(DENSE, activation_function="torch.nn.modules.activation.ReLU")(folder)
    found.append(SentenceEncoder.load(str(folder), "cpu").fingerprint)
    change_modules(lambda entries: entries.pop())(folder)
    found.append(SentenceEncoder.load(str(folder), "cpu").fingerprint)
    found.append(SentenceEncoder.load(str(folder), "cpu", pooling="mean").fingerprint)
    assert len(set(found)) == 5


def config_files(folder: Path) -> None:
    """Transformers would read another file in place of config.json."""
    content = json.loads((folder / "config.json").read_text())
    write(folder / "config.4.0.0.json", content | {"attn_implementation": "owner/kernels"})
    change_json("config.json", configuration_files=["config.4.0.0.json"])(folder)


FETCHING: dict[str, Callable[[Path], object]] = {
    **{
        key: change_json("config.json", **{key: value})
        for key, value in {
            "attn_implementation": "owner/kernels",
            "_attn_implementation": "owner/kernels@main:attend",
            "_attn_implementation_internal": "owner/kernels",
            "experts_implementation": "owner/kernels",
            "fusion_config": {"owner/kernels": True},
            "transformers_weights": "../../secret.safetensors",
        }.items()
    },
    "configuration_files": config_files,
}


@pytest.mark.parametrize("case", FETCHING)
def test_keys_that_fetch_code_are_dropped(
    case: str, copy: Callable[[str], Path], texts: list[str], tmp_path: Path
) -> None:
    """Else transformers asks the hub, or fails where it has no network or no package for it."""
    folder = copy("labse")
    expected = SentenceEncoder.load(str(folder), "cpu").embed(texts)
    FETCHING[case](folder)
    for pickled in (False, True):  # read without transformers, and by it
        encoder = SentenceEncoder.load(str(folder), "cpu")
        assert np.array_equal(encoder.embed(texts), expected)
        encoder.save(tmp_path / "saved")
        assert "owner" not in (tmp_path / "saved" / "config.json").read_text()
        if not pickled:
            torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
            (folder / WEIGHTS).unlink()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attn_implementation", "owner/kernels"),
        ("_attn_implementation", "flash_attention_2"),  # transformers finds a page for it
        ("experts_implementation", "deepgemm"),
        ("quantization_config", {"quant_method": "eetq"}),
    ],
)
def test_own_code_takes_no_other_code_from_the_hub(
    key: str, value: object, copy: Callable[[str], Path]
) -> None:
    folder = copy("labse")
    own_code(folder, "")
    change_json("config.json", **{key: value})(folder)
    with pytest.raises(MexmaError, match=rf"from another page of the hub \(`{key}`\)"):
        SentenceEncoder.load(str(folder), "cpu", trust_remote_code=True)


def test_settings_of_single_layers_are_refused(folder: Path) -> None:
    change_json("config.json", per_layer_config={"0": {"num_attention_heads": 2}})(folder)
    with pytest.raises(MexmaError, match=r"per_layer_config .*; only None is supported"):
        SentenceEncoder.load(str(folder), "cpu")


def test_a_pooler_before_a_folder_s_own_dense_is_refused(published: Callable[[str], Path]) -> None:
    with pytest.raises(MexmaError, match="has a Dense module of its own, in the place of a pooler"):
        SentenceEncoder.load(str(published("labse")), "cpu", pooling="pooler")


def test_the_pooling_of_a_plain_folder_is_said(
    plain: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = plain("bert")
    with caplog.at_level("INFO"):
        SentenceEncoder.load(str(folder), "cpu", pooling="mean")
        assert not caplog.messages
        SentenceEncoder.load(str(folder), "cpu")
    (said,) = caplog.messages
    assert said.startswith(f"{folder} has no modules.json: vectors are the first token's (--pooling cls)")
