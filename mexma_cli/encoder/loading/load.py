"""Load the transformer and the tokeniser of an encoder's folder, and check that they belong together."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer
from tokenizers.models import Unigram

from mexma_cli.encoder.loading import static, stored
from mexma_cli.encoder.loading.settings import FolderSettings, NotCovered
from mexma_cli.encoder.loading.tokenizer import (
    LazyTokenizer,
    panic_as_message,
    put_in_lower_case,
    with_transformers,
)
from mexma_cli.encoder.loading.weights import reason
from mexma_cli.encoder.model.families import FAMILIES, STATIC
from mexma_cli.encoder.model.transformer import LazyTransformer
from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from mexma_cli.encoder.model.pooling import Dense

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model")
UNSEEN = "\U000f1234"
"""A private-use character that is in no vocabulary."""


def load_transformer(
    name: str, settings: FolderSettings, with_pooler: bool
) -> tuple[LazyTransformer, Dense | None]:
    """The transformer as it is stored, in evaluation mode; and its pooler, if that is wanted.

    Raises:
        MexmaError: Weights that cannot be read, are missing or do not fit config.json.
    """
    if settings.config["model_type"] == STATIC:
        return static.read_table(settings), None
    if not with_pooler and (plain := stored.read_model(settings)):
        return LazyTransformer(plain), None
    from mexma_cli.encoder.loading import hugging_face

    try:
        model, report = hugging_face.read_model(settings, with_pooler)
    except MexmaError:
        raise
    except Exception as error:  # transformers, and a folder's own code, raise whatever they like
        raise refused(name, error) from None
    # transformers fills weights that are missing or have another shape with random numbers
    absent = sorted([*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])])
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
    return LazyTransformer(model.eval()), layer


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
    """The folder's tokeniser, checked against config.json.

    Args:
        vocabulary: Number of token embeddings.

    Raises:
        MexmaError: The folder has no fast tokeniser, or it is damaged, or it belongs to another model.
    """
    folder = settings.transformer
    if settings.config["model_type"] == STATIC:
        return static.read_tokenizer(name, settings, vocabulary)
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


def _highest_id(backend: Tokenizer) -> int:
    if isinstance(backend.model, Unigram):  # ids are places in a list, and listing them all is slow
        pieces = backend.get_vocab_size(with_added_tokens=False)
        return max(pieces - 1, *backend.get_added_tokens_decoder(), 0)
    return max(backend.get_vocab().values(), default=0)


@panic_as_message()
def _check(name: str, tokenizer: LazyTokenizer, config: dict[str, Any], vocabulary: int) -> None:
    backend = tokenizer.unlimited
    highest = _highest_id(backend)
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
    family = FAMILIES.get(str(config.get("model_type")))
    if len(ends) != 2 and (family is None or family.is_bert or family.takes_language):
        raise NotCovered(
            f"{wrong}: it puts {len(ends)} special tokens around a sentence, not one before and one after "
            f"{sizes}",
            hint,
        )
    if family is not None and not family.behind_padding:
        return  # BERT reads none of these ids; multilingual-e5-small states BERT's and has XLM-R's tokeniser
    expected = {"pad_token_id": tokenizer.padding, "bos_token_id": ends[0], "eos_token_id": ends[1]}
    if family is not None and family.takes_language:
        del expected["bos_token_id"]  # the first token is the language
    for key, found in expected.items():
        stated = config.get(key)
        if stated is not None and stated != found:
            raise MexmaError(f"{wrong}: {key} is {stated} in config.json and {found} in it {sizes}", hint)
