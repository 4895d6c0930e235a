"""Load the parts of an encoder from a name, and check that they belong together."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from safetensors import SafetensorError
from tokenizers.models import Unigram

from mexma_cli.encoder.loading import card, pq, static
from mexma_cli.encoder.loading.folder import BESIDE_NGRAMS, CHECKPOINT_ENDING, WEIGHTS, locate
from mexma_cli.encoder.loading.hub import pinned
from mexma_cli.encoder.loading.library import load_by_library, with_code
from mexma_cli.encoder.loading.modules import load_modules
from mexma_cli.encoder.loading.settings import (
    FolderSettings,
    NotCovered,
    read_prompts,
    read_settings,
    unasked,
)
from mexma_cli.encoder.loading.tokenizer import (
    LazyTokenizer,
    panic_as_message,
    put_in_lower_case,
    with_transformers,
)
from mexma_cli.encoder.loading.weights import FILES, missing, read_pickled, read_weights, reason
from mexma_cli.encoder.model.families import ACTIVATIONS, FAMILIES, STATIC, Pooling
from mexma_cli.encoder.model.transformer import StoredModel, Transformer, Weights, quieten_transformers
from mexma_cli.errors import MexmaError, choice

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from mexma_cli.encoder.model.pooling import Dense

log = logging.getLogger(__name__)

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model")
TOKENIZER_FILES += ("tokenizer.model", "spiece.model", "spm.model")
_COUNTED = ("albert", "bert", "deberta-v2", "distilbert", "electra", "ernie", "rembert")
"""Families whose positions are counted from the first token, padding or not."""
UNSEEN = "\U000f1234"
"""A private-use character that is in no vocabulary."""
_TRIED = 300  # tokens of a folder's own code: more than windows of attention have
_IGNORED = ("pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids")
"""Tensors that files may have and the model without its pooler does not."""


@dataclass
class Loaded:
    """The parts of an encoder, as `SentenceEncoder` has them.

    Attributes:
        limit: How many tokens of a sentence it takes at most.
    """

    name: str
    weights: Weights
    tokenizer: LazyTokenizer
    pooling: Pooling
    limit: int
    modules: Sequence[torch.nn.Module] = ()
    prefix: str = ""
    prompts: Mapping[str, str] = field(default_factory=dict)
    dim: int | None = None
    ngrams_in: Path | None = None
    languages: tuple[str, ...] = ()
    trained: Mapping[str, card.Trained] = field(default_factory=dict)


def load(
    name_or_path: str | Path, pooling: Pooling | None, trust_remote_code: bool, code_revision: str | None
) -> Loaded:
    """An encoder's parts; see `SentenceEncoder.load`."""
    if pooling not in (None, *get_args(Pooling)):
        hint = choice(str(pooling), get_args(Pooling), "the poolings")
        raise MexmaError(f"there is no pooling {pooling!r}", hint)
    if not isinstance(name_or_path, str | os.PathLike):
        raise MexmaError(
            f"an encoder is a name or a folder, not {type(name_or_path).__name__}",
            "save a model of transformers or sentence-transformers, and name its folder",
        )
    if not isinstance(name_or_path, str):
        name_or_path = os.path.join(".", name_or_path)
    name = name_or_path.rstrip("/") or name_or_path
    if (file := Path(name)).suffix == CHECKPOINT_ENDING and file.is_file():
        model, pieces, own = read_checkpoint(file)
        if pooling not in (None, own):
            raise MexmaError(f"{name!r}: its pooling is {own}, not {pooling}")
        return Loaded(name, model, pieces, own, pieces.max_tokens)
    where = locate(name_or_path, trust_remote_code)
    name = pinned(name, where)
    if beside := sorted(path.parent.name for path in where.glob("*/adapter_config.json")):
        hint = "merge one into the weights with peft to use it"
        log.info("%s: the adapters in it are not applied (%s): %s", name, ", ".join(beside), hint)
    with with_code(where, code_revision if trust_remote_code else None) as folder:
        try:
            found = _load_folder(name, folder, pooling, trust_remote_code)
        except NotCovered as refusal:
            library, words = load_by_library(name, folder, refusal, trust_remote_code)
            if pooling not in (None, library.pooling):
                raise MexmaError(
                    f"{name!r} is run by sentence-transformers, with the pooling of its folder "
                    f"({library.pooling})",
                    "leave out --pooling",
                ) from None
            said = read_prompts(folder)
            found = Loaded(name, library, words, library.pooling, words.max_tokens, (), *said)
    found.languages, found.trained = card.languages(where), card.read_trained(where)
    return found


def _load_folder(name: str, where: Path, pooling: Pooling | None, trust_remote_code: bool) -> Loaded:
    """An encoder that mexma computes, or runs as transformers has it."""
    settings = read_settings(where, trust_remote_code)
    own = pooling or settings.pooling
    if settings.config.get("model_type") == STATIC:
        if own != settings.pooling:
            raise MexmaError(f"{name!r} is a table of token vectors, of which it takes the mean, not {own}")
        table = static.read_table(settings)
        words: LazyTokenizer = static.read_static_tokenizer(name, settings, len(table.vectors))
        modules = load_modules(name, settings, table.config.hidden_size, None)
        said = settings.prefix, settings.prompts, settings.dim
        return Loaded(name, table, words, own, words.max_tokens, modules, *said)
    if pooling == "pooler" and any(kind == "Dense" for kind, _, _ in settings.modules):
        raise MexmaError(
            f"{name!r} has a Dense module of its own, in the place of a pooler", "leave out --pooling"
        )
    if pooling is None and settings.pooling == "cls" and not (where / "modules.json").is_file():
        said = "vectors are the first token's (--pooling cls); sentence-transformers would take the mean"
        log.info("%s has no modules.json: %s", name, said)
    try:
        transformer, pooler = load_transformer(name, settings, with_pooler=pooling == "pooler")
    except MexmaError as error:
        if settings.unread:
            raise unasked(repr(name), settings.unread, f"; without it: {error.message}") from None
        raise
    if settings.unread:
        kind = settings.config["model_type"]
        log.info("%s: its Python code (%s) is not run: transformers has %s", name, settings.unread, kind)
    if not settings.own_code:
        return _together(name, settings, transformer, pooler, own)
    try:
        found = _together(name, settings, transformer, pooler, own)
        _check_own_code(found, transformer)
    except MexmaError:
        raise
    except Exception as error:  # of the folder's code, which may lack anything
        raise _not_packed(name, f" ({reason(error)})") from None
    return found


def _together(
    name: str, settings: FolderSettings, transformer: Transformer, pooler: Dense | None, own: Pooling
) -> Loaded:
    """The parts of an encoder, checked to belong together."""
    words = load_tokenizer(name, settings, transformer.vocabulary)
    ends = len(words.unlimited.encode("").ids)
    if own in ("cls", "pooler", "max") and not ends:
        raise NotCovered(
            f"{name!r} puts no special tokens around a sentence: an empty one has none for the pooling {own}"
        )
    modules = load_modules(name, settings, transformer.config.hidden_size, pooler)
    limit = words.limit(name, settings.max_tokens)
    if settings.max_tokens is None or transformer.has_positions:
        limit = min(limit, transformer.positions)
    if limit < max(2, ends):
        raise MexmaError(
            f"{name!r} takes {limit} tokens, of which {ends} are special: no room for a sentence"
        )
    said = settings.prefix, settings.prompts, settings.dim
    found = Loaded(name, transformer, words, own, limit, modules, *said)
    found.ngrams_in = settings.transformer
    return found


def _check_own_code(loaded: Loaded, transformer: Transformer) -> None:
    """Check that a folder's own code attends within each packed sentence as it does in a padded batch."""
    from mexma_cli.encoder.model.attention import IMPLEMENTATION, same_padded

    long = " ".join(map(str, range(_TRIED)))
    *short, ids = loaded.tokenizer.encode(["a", "b c", long])
    if len(ids) > (most := min(loaded.limit, _TRIED)):
        ids = loaded.tokenizer.cut(ids, most)
    model, padding = transformer.model, loaded.tokenizer.padding or 0
    pads_left = loaded.tokenizer.pads_left
    own = model.config._attn_implementation != IMPLEMENTATION
    if own or not same_padded(model, [*short, ids], transformer.first_position, padding, pads_left):
        raise _not_packed(loaded.name)


def _not_packed(name: str, why: str = "") -> NotCovered:
    return NotCovered(
        f"{name!r}: its own code does not attend through transformers' AttentionInterface{why}",
        f"supported without such code: {', '.join(FAMILIES)}",
    )


def read_checkpoint(path: Path) -> tuple[Transformer, LazyTokenizer, Pooling]:
    """LASER2, LASER3 or SONAR as they are published: in evaluation mode, the tokeniser and the pooling. Code
    in the file is never run; another layout is refused."""
    from mexma_cli.encoder.loading import laser, sonar

    content = read_pickled(path, argparse.Namespace)  # LASER3's settings
    known = set(content) if isinstance(content, dict) and isinstance(content.get("model"), dict) else set()
    if known >= {"params", "model", "dictionary"}:
        return laser.read_laser2(path, content)
    if known >= {"cfg", "model"}:
        return laser.read_laser3(path, content)
    if "model" in known and sonar.EMBEDDINGS in content["model"]:
        return sonar.read_sonar(path, content)
    raise MexmaError(
        f"{path} is no checkpoint of LASER2, LASER3 or SONAR",
        "an encoder is a folder with config.json, or one of their files: docs/embedding.md",
    )


def load_transformer(
    name: str, settings: FolderSettings, with_pooler: bool
) -> tuple[Transformer, Dense | None]:
    """The transformer as it is stored, in evaluation mode; and its pooler, if that is wanted. Refused:
    weights that cannot be read, are missing or do not fit config.json."""
    if not with_pooler and (plain := _without_transformers(settings)):
        return Transformer(plain), None
    try:
        model, report = _read_model(settings, with_pooler)
    except MexmaError:
        raise
    except Exception as error:  # transformers, and a folder's own code, raise whatever they like
        raise refused(name, error) from None
    absent = missing(report)
    pooler = [key for key in absent if key.startswith("pooler.")]
    if with_pooler and (pooler or getattr(model, "pooler", None) is None):
        raise MexmaError(f"{name!r} has no pooler weights", "use --pooling cls or mean")
    if absent := [key for key in absent if key not in pooler]:
        raise MexmaError(
            f"{name!r}: {len(absent)} of the weights are missing or have another shape, such as {absent[0]}",
            "the weights and config.json do not belong together",
        )
    layer = _pooler(name, model) if with_pooler else None
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return Transformer(model.eval()), layer


def _read_model(settings: FolderSettings, with_pooler: bool) -> tuple[PreTrainedModel, dict[str, Any]]:
    """The folder's model as it is stored, of the type that its weights have, whatever config.json says; and
    what transformers reports of its weights. Importing transformers' models takes seconds."""
    import torch
    from transformers import AutoModel
    from transformers.activations import ACT2FN

    from mexma_cli.encoder.model.hugging_face import build_model

    quieten_transformers()
    folder, config = settings.transformer, settings.config
    if settings.own_code:
        model, report = AutoModel.from_pretrained(
            folder,
            dtype=_widest(read_weights(folder)),
            ignore_mismatched_sizes=True,  # reported by name instead
            output_loading_info=True,
            weights_only=True,
            trust_remote_code=True,
        )
        return model, report
    activation = config.get("hidden_act")
    if isinstance(activation, str) and activation not in ACT2FN:
        raise MexmaError(f"{folder / 'config.json'}: hidden_act {activation!r} is not supported")
    is_bert = FAMILIES[config["model_type"]].is_bert
    arguments: dict[str, Any] = {"add_pooling_layer": with_pooler} if is_bert else {}
    if (folder / pq.FILE).is_file():
        small = StoredModel(config, pq.load(folder / pq.FILE)).tensors()
        return build_model(config, small, torch.float32, **arguments)
    weights = read_weights(folder, (BESIDE_NGRAMS, *FILES))
    return build_model(config, weights, _widest(weights), **arguments)


def _widest(weights: Mapping[str, torch.Tensor]) -> torch.dtype:
    """The floating-point type that has all numbers of the weights."""
    import torch

    types = {weight.dtype for weight in weights.values() if weight.is_floating_point()}
    return types.pop() if len(types) == 1 else torch.float32


def _pooler(name: str, model: PreTrainedModel) -> Dense:
    import torch

    from mexma_cli.encoder.model.pooling import Dense

    linear = getattr(model.pooler, "dense", None)
    if not isinstance(linear, torch.nn.Linear) or not isinstance(model.pooler.activation, torch.nn.Tanh):
        raise MexmaError(f"{name!r}: its pooler is not BERT's (a linear layer and tanh)", "use --pooling cls")
    return Dense(linear.float(), torch.nn.Tanh())


def refused(name: str, error: Exception) -> MexmaError:
    """The error for an exception of transformers or tokenizers, which raise many kinds."""
    return MexmaError(
        f"{name!r} cannot be loaded as an encoder: {reason(error)}",
        "name `mini`, a folder with config.json, model.safetensors and tokenizer.json, or a hub id",
    )


def load_tokenizer(name: str, settings: FolderSettings, vocabulary: int) -> LazyTokenizer:
    """The folder's tokeniser, checked against config.json and the number of token embeddings. Refused: a
    folder without a fast tokeniser, a damaged one, and one that belongs to another model."""
    folder = settings.transformer
    if not any((folder / file).is_file() for file in TOKENIZER_FILES):
        raise MexmaError(f"{name!r} cannot be loaded as an encoder: it has no tokeniser (tokenizer.json)")
    tokenizer = LazyTokenizer.read(folder, partial(_with_transformers, name, folder, settings))
    if settings.lower_case:
        put_in_lower_case(tokenizer.backend)
    _check(name, tokenizer, settings.config, vocabulary)
    return tokenizer


def _with_transformers(name: str, folder: Path, settings: FolderSettings) -> PreTrainedTokenizerFast:
    try:
        tokenizer = with_transformers(folder, settings.own_code)
    except Exception as error:  # tokenizers raises plain Exception
        raise refused(name, error) from None
    if not getattr(tokenizer, "is_fast", False):
        raise NotCovered(f"{name!r} has no fast tokeniser (tokenizer.json)")
    if settings.lower_case:
        put_in_lower_case(tokenizer.backend_tokenizer)
    return tokenizer


@panic_as_message()
def _check(name: str, tokenizer: LazyTokenizer, config: dict[str, Any], vocabulary: int) -> None:
    backend = tokenizer.unlimited
    if isinstance(backend.model, Unigram):  # ids are places in a list, and listing them all is slow
        pieces = backend.get_vocab_size(with_added_tokens=False)
        highest = max(pieces - 1, *backend.get_added_tokens_decoder(), 0)
    else:
        highest = max(backend.get_vocab().values(), default=0)
    sizes = f"(tokeniser: {backend.get_vocab_size():,} tokens; weights: {vocabulary:,})"
    wrong = f"{name!r}: the tokeniser does not belong to the weights"
    hint = "take both from the same folder"
    if highest >= vocabulary:
        raise MexmaError(f"{wrong}: it has token ids up to {highest:,} {sizes}", hint)
    try:
        ends = backend.encode("").ids
        backend.encode(UNSEEN)
    except Exception as error:  # tokenizers raises plain Exception
        raise MexmaError(f"{name!r}: the tokeniser does not work: {error} {sizes}", hint) from None
    if any(backend.encode("a").type_ids) and "token_type_ids" in tokenizer.full.model_input_names:
        raise NotCovered(f"{name!r}: the tokeniser gives a sentence token types other than 0")
    if not tokenizer.masks:
        raise NotCovered(f"{name!r}: padding is not masked, and so a sentence's vector depends on others")
    if tokenizer.pads_left and config.get("model_type") in _COUNTED:
        raise NotCovered(
            f"{name!r}: padding stands before a sentence, and its positions are counted from there"
        )
    family = FAMILIES.get(str(config.get("model_type")))
    if len(ends) != 2 and (family is None or family.takes_language):
        raise NotCovered(
            f"{wrong}: it puts {len(ends)} special tokens around a sentence, not one before and one after "
            f"{sizes}",
            hint,
        )
    if family is not None and not family.behind_padding:
        return  # BERT reads none of these ids; multilingual-e5-small states BERT's and has XLM-R's tokeniser
    expected = {"pad_token_id": tokenizer.padding}
    if len(ends) == 2:
        expected |= {"bos_token_id": ends[0], "eos_token_id": ends[1]}
    if family is not None and family.takes_language:
        del expected["bos_token_id"]  # the first token is the language
    for key, found in expected.items():
        stated = config.get(key)
        if stated is not None and stated != found:
            raise MexmaError(f"{wrong}: {key} is {stated} in config.json and {found} in it {sizes}", hint)


def _without_transformers(settings: FolderSettings) -> StoredModel | None:
    """BERT's weights as mexma stores them; None if they are not exactly those that config.json describes:
    any other folder is left to transformers, which also reports what is wrong with it.
    """
    folder, config = settings.transformer, settings.config
    if settings.own_code or config.get("add_cross_attention") or not FAMILIES[config["model_type"]].is_bert:
        return None
    try:
        if small := (folder / pq.FILE).is_file():
            weights: dict[str, Any] = {**pq.load(folder / pq.FILE)}
        else:  # torch's loader: NumPy lacks bfloat16, and large files are not copied
            from safetensors.torch import load_file

            beside = folder / BESIDE_NGRAMS
            weights = load_file(beside if beside.is_file() else folder / WEIGHTS)
        weights = {name: tensor for name, tensor in weights.items() if name not in _IGNORED}
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        types = {str(tensor.dtype).removeprefix("torch.") for tensor in weights.values()}
        alike = small or types in ({"float32"}, {"bfloat16"}, {"float16"})
        numbers = isinstance(config["layer_norm_eps"], float) and isinstance(config["pad_token_id"], int)
        known = numbers and config["hidden_act"] in ACTIVATIONS
        if known and alike and shapes == _shapes(config, len(weights)):
            return StoredModel(config, weights)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        pass
    return None


def _shapes(config: dict[str, Any], most: int) -> dict[str, tuple[int, ...]]:
    """The shapes of all weights of BERT's family without pooler, by name, of `most` layers at most."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    if width % config["num_attention_heads"] or config["num_hidden_layers"] > most:
        raise ValueError("heads that do not divide the width, or more layers than weights")
    tables = {
        "word": config["vocab_size"],
        "position": config["max_position_embeddings"],
        "token_type": config["type_vocab_size"],
    }
    found: dict[str, tuple[int, ...]] = {
        f"embeddings.{name}_embeddings.weight": (rows, width) for name, rows in tables.items()
    }
    norms = ["embeddings.LayerNorm"]
    linear: dict[str, tuple[int, int]] = {}
    for layer in [f"encoder.layer.{i}" for i in range(config["num_hidden_layers"])]:
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        linear |= {f"{layer}.attention.self.{name}": (width, width) for name in ("query", "key", "value")}
        linear[f"{layer}.attention.output.dense"] = (width, width)
        linear[f"{layer}.intermediate.dense"] = (inner, width)
        linear[f"{layer}.output.dense"] = (width, inner)
    for name in norms:
        found |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    for name, shape in linear.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return found
