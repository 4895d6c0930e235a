"""SentenceEncoder: load, embed, save. Text in, one vector a sentence out."""

from __future__ import annotations

import logging
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xxhash

from mexma_cli.encoder.loading import card, pq, static
from mexma_cli.encoder.loading.folder import BESIDE_NGRAMS, WEIGHTS, check_replaceable, written_aside
from mexma_cli.encoder.loading.hub import is_id, upload
from mexma_cli.encoder.loading.library import KIND
from mexma_cli.encoder.loading.load import Loaded, load
from mexma_cli.encoder.loading.modules import is_only_ours, save_modules
from mexma_cli.encoder.loading.settings import (
    prompt_settings,
    shorten_tokenizer,
    write_only_ours,
    write_prompts,
    write_settings,
)
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer, check_strings, puts_in_lower_case
from mexma_cli.encoder.model.bag import BagOfEmbeddings
from mexma_cli.encoder.model.families import FAMILIES, FIRST_ONLY, Pooling
from mexma_cli.encoder.model.transformer import EmbedBatch, Sentences, Transformer, Weights
from mexma_cli.encoder.model.weighted_embeddings import QuantisedEmbeddings
from mexma_cli.encoder.ngrams import NgramEmbeddings
from mexma_cli.errors import MexmaError
from mexma_cli.numerics.precisions import default_device
from mexma_cli.numerics.threads import ahead

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from mexma_cli.encoder.model.attention import Backend
    from mexma_cli.encoder.model.pooling import Dense
    from mexma_cli.settings.training import NewEncoder

log = logging.getLogger(__name__)

SENTENCES_PER_BUFFER = 8192
"""Sentences that are sorted by length together."""

_LETTERS_PER_BUFFER = 1 << 16
_AHEAD = 3
"""Buffers that wait between two threads."""

MAX_TOKENS = 200
"""Length limit of an encoder whose folder states no smaller one."""

_RIDGE = 1e-4  # of the sum of all squares, in `map_to`
_HASHED_ROWS = 1 << 12  # of a weight that are in memory together
_NLLB = {"sat_Olck": "sat_Beng"}
"""Languages to which NLLB's tokens, and so SONAR's, give another code than FLORES-200."""


class SentenceEncoder:
    """A Hugging Face encoder with its tokeniser, pooling and the modules after it.

    Attributes:
        name: The name that was loaded; a hub id with its commit, `facebook/MEXMA@COMMIT`.
        transformer: Weights and config.
        fast_tokenizer: The tokeniser.
        pooling: See `pool`; `pooler` is the first token through BERT's pooler, first of `modules`.
        max_tokens: Longer sentences are cut at the end, or at the beginning if the tokeniser says so; <s> and
            </s> are kept.
        ngrams: Embeds words without a token by their letter n-grams; None: as their pieces.
        prefix: Text before every sentence, such as `query: `.
        prompts: The prompts of sentence-transformers by name, which `save` writes (`prompted`).
        languages: FLORES-200 codes of the languages in its model card; () if unknown.
        trained: Training pairs and dev errors of its languages, as far as its folder has them.
        precision: Of `embed`: `float32`, `bfloat16` or `float16`. On a processor, sums, residuals and norms
            are float32, and a bag of embeddings is computed in float64.
        batch_size: Sentences that are computed together, at most; None: a budget of tokens decides.
        language: FLORES-200 code of the text, for an encoder that takes it (`set_language`).
        truncated: Number of sentences cut since the encoder was loaded.

    >>> from mexma_cli import SentenceEncoder
    >>> encoder = SentenceEncoder.load("mini")  # bundled; or a folder, or a hub id
    >>> vectors = encoder.embed(["Él nació en África.", "He was born in Africa."])
    >>> vectors.shape, str(vectors.dtype)
    ((2, 320), 'float32')
    """

    def __init__(
        self,
        name: str,
        model: PreTrainedModel | Weights,
        tokenizer: PreTrainedTokenizerFast | LazyTokenizer,
        pooling: Pooling = "cls",
        modules: Sequence[torch.nn.Module] = (),
        max_tokens: int = MAX_TOKENS,
        ngrams: NgramEmbeddings | None = None,
    ) -> None:
        self.name = name
        self.transformer = model if isinstance(model, Weights) else Transformer(model)
        of_transformers = not isinstance(tokenizer, LazyTokenizer)
        self.fast_tokenizer = LazyTokenizer.of(tokenizer) if of_transformers else tokenizer
        self.pooling = pooling
        self._modules: torch.nn.Sequential | None = None
        if modules:
            self.modules.extend(modules)
        self.max_tokens = max_tokens
        self.ngrams = ngrams
        self.prefix = ""
        self.prompts: Mapping[str, str] = {}
        self._kept: int | None = None
        self.batch_size: int | None = None
        self.languages: tuple[str, ...] = ()
        self.trained: Mapping[str, card.Trained] = {}
        self.precision = "float32"
        self.language: str | None = None
        self.truncated = 0
        self._fingerprint: str | None = None

    def __repr__(self) -> str:
        return f"SentenceEncoder({self.name!r}, {self.dim} numbers, {self.device}, {self.precision})"

    @classmethod
    def load(
        cls,
        name_or_path: str | Path = "mini",
        device: str = "auto",
        dtype: str = "float32",
        *,
        pooling: Pooling | None = None,
        max_tokens: int | Literal["encoder"] | None = None,
        trust_remote_code: bool = False,
        code_revision: str | None = None,
    ) -> SentenceEncoder:
        """An encoder by name: `mini` (bundled), a folder, or a hub id such as `facebook/MEXMA`.

        Args:
            name_or_path: A Path is always a folder. A hub id may have a commit, tag or branch:
                `facebook/MEXMA@main`.
            device: `cpu`, `cuda`, `cuda:1`, or `auto` (the GPU where there is one; `mini`, which would gain
                nothing there, is on the processor).
            dtype: What `embed` computes in: `float32`, `bfloat16`, `float16`, or `auto`: bfloat16 where the
                device has instructions for it, else float32 on a processor and float16 on a GPU; float32 for
                a bag of embeddings such as `mini` on a processor.
            pooling: In place of the folder's own.
            max_tokens: Length limit, MAX_TOKENS by default; a smaller limit of the folder's own holds, and
                `encoder` is that limit itself.
            trust_remote_code: Run the Python code that the folder has, if it has any; from the hub only at
                a commit that is named.
            code_revision: The commit of code that the folder names on another page of the hub.

        Raises:
            MexmaError: No such encoder, not an encoder's folder, a module that neither mexma nor an installed
                sentence-transformers supports, or a device that this machine does not have.
        """
        found = load(name_or_path, pooling, trust_remote_code, code_revision)
        length = _length(found, max_tokens)
        encoder = cls(found.name, found.weights, found.tokenizer, found.pooling, found.modules, length)
        if found.ngrams_in:
            encoder.ngrams = NgramEmbeddings.load(found.ngrams_in, found.weights.config.hidden_size)
        encoder.prefix, encoder.prompts = found.prefix, found.prompts
        encoder.truncate(found.dim and min(found.dim, encoder.dim))
        encoder.languages, encoder.trained = found.languages, found.trained
        _ = encoder.fingerprint  # of the weights as they are stored, whatever they are cast to
        here = (default_device() if device == "auto" else device) in ("auto", "cpu")
        if not (here and dtype in ("auto", "float32") and encoder.is_bag):  # else nothing of torch is needed
            encoder._move(device, dtype)
        return encoder

    @classmethod
    def new(
        cls, shape: NewEncoder, tokenizer: PreTrainedTokenizerFast, max_tokens: int, seed: int
    ) -> SentenceEncoder:
        """An untrained XLM-R of a recipe's shape, CLS pooling, initialised from `seed`."""
        from mexma_cli.encoder.model.hugging_face import new_model

        model = new_model(shape, len(tokenizer), max_tokens, seed)
        return cls("new", model, tokenizer, max_tokens=max_tokens)

    @property
    def model(self) -> PreTrainedModel:
        """Transformers' unmodified model, attending by packed sentences."""
        return self.transformer.model

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Transformers' fast tokeniser."""
        return self.fast_tokenizer.full

    @property
    def modules(self) -> torch.nn.Sequential:
        """`Dense` and `Normalize` after the pooling, in order, always float32."""
        if self._modules is None:
            import torch

            self._modules = torch.nn.Sequential()
        return self._modules

    @modules.setter
    def modules(self, modules: torch.nn.Sequential) -> None:
        self._modules = modules

    @cached_property
    def backend(self) -> Backend:
        """The attention in use, which may be set."""
        from mexma_cli.encoder.model.attention import choose_backend

        return choose_backend("auto", self.device)

    def _move(self, name: str, dtype: str) -> None:
        from mexma_cli.numerics.devices import pick_device, pick_precision, precision_of

        device = pick_device(name)
        self.precision = str(pick_precision(dtype, device)).removeprefix("torch.")
        # On a processor the weights stay float32: the engine, or autocast, has copies for its products.
        on_cpu = device.type == "cpu" and self.precision != "float16"
        self.transformer.to(device, precision_of("float32" if on_cpu else self.precision))
        self.modules.to(device)
        if dtype == "auto" and self.is_bag:
            self.precision = "float32"

    @property
    def dim(self) -> int:
        """Length of a sentence vector."""
        return self._kept or self._full_dim

    @property
    def _full_dim(self) -> int:
        layers = self._dense()
        return layers[-1].linear.out_features if layers else self.transformer.config.hidden_size

    def truncate(self, dim: int | None) -> None:
        """Keep the first `dim` numbers of vectors, as sentence-transformers' `truncate_dim`; None: all.

        They are not normalised again.

        Raises:
            MexmaError: There are fewer.
        """
        if dim is not None and not 1 <= dim <= self._full_dim:
            raise MexmaError(f"{self.name!r} has vectors of {self._full_dim} numbers, and not of {dim}")
        self._kept = None if dim == self._full_dim else dim

    def map_to(self, sentences: Sequence[str], vectors: np.ndarray) -> None:
        """Put this encoder's vectors where another one's are: a linear map after its modules, by ridge
        regression, and then Normalize.

        Args:
            sentences: N strings, thousands of them.
            vectors: Float [N, M]: what the other encoder gives them, or their translations.

        Raises:
            MexmaError: As `embed`; not a vector for each sentence; or sentence-transformers runs the encoder.
        """
        if self.transformer.library is not None:
            raise MexmaError(f"{self.name!r} is run by sentence-transformers, with its modules alone")
        if vectors.ndim != 2 or len(vectors) != len(sentences) or not vectors.size:
            raise MexmaError(f"vectors of the shape {vectors.shape} for {len(sentences)} sentences")
        import torch

        from mexma_cli.encoder.model.pooling import Dense, Normalize

        self.truncate(None)
        own = self.embed(sentences).astype(np.float64)
        squares = own.T @ own
        ridge = _RIDGE * np.trace(squares) * np.eye(len(squares))
        found = np.linalg.lstsq(squares + ridge, own.T @ vectors, rcond=None)[0]
        linear = torch.nn.Linear(*found.shape, bias=False, device=self.device)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(found.T))
        self.modules.extend([Dense(linear, torch.nn.Identity()), Normalize()])
        self._fingerprint = None

    def prompted(self, prompt: str | None, task: str | None = None) -> str:
        """The text to put before a sentence (`prefix`).

        Args:
            prompt: The name of one of `prompts`, or a text; None: the encoder's `prefix`.
            task: Stands for `{task}` in it.

        Raises:
            MexmaError: There is no prompt of that name, or one of `{task}` and the task is missing.
        """
        text = self.prefix if prompt is None else self.prompts.get(prompt, prompt)
        if prompt is not None and prompt not in self.prompts and re.fullmatch(r"[\w-]+", prompt):
            raise self._no_prompt(prompt)
        if task is None and "{task}" in text:
            raise MexmaError(f"the prompt {text!r} is for a task", "say which one: --task TEXT")
        if task is not None and "{task}" not in text:
            raise MexmaError(
                f"the prompt {text!r} has no {{task}} in it, for which --task would stand",
                r"name one that has: --prompt $'Instruct: {task}\nQuery: '",
            )
        return text.replace("{task}", task or "")

    def for_task(self, task: str | None) -> str | None:
        """Choose the adapter or route of a task, in an encoder that has such.

        Returns:
            What is left of the task for the prompt (`prompted`).

        Raises:
            MexmaError: The encoder has adapters or routes, and none of that name.
        """
        weights = self.transformer
        if task is None or not weights.tasks:
            return task
        if task not in weights.tasks:
            named = ", ".join(weights.tasks)
            raise MexmaError(f"{self.name!r} has nothing for the task {task!r}", f"--task is one of {named}")
        weights.task = task
        return None

    def _no_prompt(self, name: str) -> MexmaError:
        return MexmaError(
            f"{self.name!r} has no prompt of the name {name!r}",
            f"it has {', '.join(self.prompts) or 'none'}; a text ends with a colon, a space or the like",
        )

    def _dense(self) -> list[Dense]:
        if not self._modules:
            return []
        from mexma_cli.encoder.model.pooling import Dense

        return [module for module in self._modules if isinstance(module, Dense)]

    @property
    def normalised(self) -> bool:
        """Whether `embed` returns unit vectors."""
        return self._normalises and self._kept is None

    @property
    def _normalises(self) -> bool:
        return self.modules[-1] not in self._dense() if self._modules else self.transformer.normalised

    def keep_lengths(self) -> None:
        """Leave out the Normalize at the end of the modules, if it is there; the fingerprint tells.

        Raises:
            MexmaError: sentence-transformers runs the encoder, with all of its modules.
        """
        if self._normalises and not self._modules:
            raise MexmaError(f"{self.name!r} is run by sentence-transformers, its Normalize included")
        if self._normalises:
            self._fingerprint = xxhash.xxh3_128_hexdigest(f"{self._whole()} without Normalize".encode())
            del self.modules[-1]

    @property
    def is_bag(self) -> bool:
        """Whether its vectors are sums over tokens, for which torch is not needed (`model.bag`)."""
        found = self.transformer.is_bag(self.pooling)
        return found and (self.pooling not in FIRST_ONLY or self.fast_tokenizer.special[0] > 0)

    @property
    def computed_by(self) -> str:
        """The program that computes hidden states on a processor, in words."""
        return "NumPy, as sums over tokens" if self.is_bag else self.transformer.computed_by

    @property
    def device(self) -> torch.device:
        """The transformer's device."""
        return self.transformer.device

    @property
    def on_cpu(self) -> bool:
        """Whether it computes on the processor."""
        return self.transformer.stored is not None or self.device.type == "cpu"

    @property
    def fingerprint(self) -> str:
        """Hash of weights, tokeniser, pooling, modules, length limit and task: equal only if the vectors are.

        The prefix is left out, so that queries and passages can be compared.
        """
        found = self._whole()
        for chosen in filter(None, (self._kept, self.transformer.task)):
            found = xxhash.xxh3_128_hexdigest(f"{found} {chosen}".encode())
        return found

    def _whole(self) -> str:
        """The fingerprint of whole vectors."""
        if self._fingerprint is None:
            digest = xxhash.xxh3_128()
            _hash_weights(digest, self.transformer.stored or self.transformer.weights)
            self.fast_tokenizer.hash_into(digest)
            pooling = "cls" if self.pooling == "pooler" else self.pooling  # a pooler is one of the modules
            digest.update(f"{pooling} {self._normalises} {self.max_tokens}".encode())
            digest.update(self.transformer.settings.encode())
            if self.fast_tokenizer.keeps_end:
                digest.update(b" of the end")
            if self.ngrams:
                self.ngrams.hash_into(digest)
            if self._dense():
                for module in self.modules:
                    digest.update(repr(module).encode())
                    _hash_weights(digest, module.state_dict())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    @property
    def takes_language(self) -> bool:
        """Whether it has to know the language of the text, as SONAR."""
        family = FAMILIES.get(self.transformer.config.model_type)
        return family is not None and family.takes_language

    def set_language(self, language: str | None) -> None:
        """State the language of the text that comes next; an encoder that takes none ignores it.

        Args:
            language: FLORES-200 code; None: it is not known, and nothing is embedded.

        Raises:
            MexmaError: The encoder has no token for the language.
        """
        if not self.takes_language:
            return
        self.language = None
        if language is None:
            return
        _ = self.fingerprint  # of the tokeniser before it puts the language in front
        if not self.fast_tokenizer.begin_with(_NLLB.get(language, language)):
            raise MexmaError(
                f"{self.name!r} has no token for the language {language}",
                "name the language of the text by its FLORES-200 code (fra_Latn), or leave the text out",
            )
        self.language = language

    def tokenize(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Token ids with <s> and </s>, cut to `max_tokens`; the cut ones are counted in `truncated`."""
        return [self._cut(ids) for ids in self._tokens(sentences)]

    def count_cut(self, sentences: Sequence[str]) -> None:
        """Count in `truncated` the sentences that `embed` would cut."""
        twice = self.max_tokens // 2  # pairs are no more than tokens
        self.inputs(
            [text for text, ids in zip(sentences, self._tokens(sentences), strict=True) if len(ids) > twice]
        )

    def _tokens(self, sentences: Sequence[str]) -> list[np.ndarray]:
        if self.takes_language and self.language is None:
            raise MexmaError(
                f"{self.name!r} has to know the language of the text, and is not told it here",
                "embed the text first: `mexma embed --lang CODE`",
            )
        try:
            return self.fast_tokenizer.encode([self.prefix + sentence for sentence in sentences])
        except TypeError:
            check_strings((self.prefix, *sentences))
            raise

    def _cut(self, ids: np.ndarray) -> np.ndarray:
        if len(ids) <= self.max_tokens:
            return ids
        self.truncated += 1
        return self.fast_tokenizer.cut(ids, self.max_tokens)

    def inputs(self, sentences: Sequence[str]) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Token ids as `embed` takes them, cut to `max_tokens`, and embeddings of ids above the vocabulary.

        Returns:
            int64 arrays, and float32 [rows, width of the transformer]: the id vocabulary size + i stands for
            row i. None if the encoder embeds split words as their pieces.
        """
        tokens, extra = self._merged(self._tokens(sentences))
        return list(map(self._cut, tokens)), extra

    def _merged(self, tokens: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray | None]:
        if self.ngrams and tokens:
            return self.ngrams.merge_split_words(tokens, self.fast_tokenizer.backend)
        return tokens, None

    def embed(
        self,
        sentences: Sequence[str] | Iterator[str],
        on_batch: Callable[[int, int], object] | None = None,
    ) -> np.ndarray:
        """One vector a sentence, in the order given.

        Args:
            sentences: N strings; an empty one is embedded as <s></s>.
            on_batch: Called after every batch with the sentences and tokens in it.

        Returns:
            float32 [N, dim], unit length where the encoder normalises.

        Raises:
            MexmaError: One string in place of a list, an item that is no string, or text that is not UTF-8.
        """
        if isinstance(sentences, str):
            raise MexmaError("embed takes a list of sentences, not one string", "embed([sentence])[0]")
        listed = list(sentences) if isinstance(sentences, Iterator) else sentences
        (vectors,) = self.embed_each([listed], on_batch)
        return vectors

    def embed_each(
        self, texts: Iterable[Sequence[str]], on_batch: Callable[[int, int], object] | None = None
    ) -> Iterator[np.ndarray]:
        """Embed several lists, as by `embed`; the next one is read and tokenised meanwhile."""
        embed_some = self._way_to_embed()
        start = 0
        for text, some in self.tokenised(texts):
            if start == 0:
                vectors = np.empty((len(text), self.dim), dtype=np.float32)
            for rows, found in embed_some(some) if some.tokens else ():
                vectors[start + rows] = found[:, : self.dim]
                if on_batch:
                    on_batch(len(rows), sum(len(some.tokens[row]) for row in rows))
            start += len(some.tokens)
            if start == len(text):
                yield vectors
                start = 0
                del vectors  # before memory is taken for the next

    def tokenised(self, texts: Iterable[Sequence[str]]) -> Iterator[tuple[Sequence[str], Sentences]]:
        """Lists of sentences, each with one buffer of it after another, as `inputs` has them.

        While a buffer is in use, the next ones' split words are embedded on a second thread, and those after
        them are tokenised on a third: a few, since one waits for another that takes longer.
        """
        tokens = ((text, some, self._tokens(some)) for text in texts for some in self._buffers(text))
        merged = ((text, some, *self._merged(ids)) for text, some, ids in ahead(tokens, _AHEAD))
        for text, some, ids, extra in ahead(merged, _AHEAD):
            yield text, Sentences(some, list(map(self._cut, ids)), extra)

    def _buffers(self, sentences: Sequence[str]) -> Iterator[Sequence[str]]:
        """Sentences cut to those that are in memory as tokens together, at least once.

        A bag's vectors do not depend on it, and so it takes fewer of long sentences.
        """
        most = SENTENCES_PER_BUFFER if self.on_cpu else SENTENCES_PER_BUFFER // 4  # a GPU waits for the first
        letters = _LETTERS_PER_BUFFER if self.is_bag else math.inf
        start = count = 0
        for at, sentence in enumerate(sentences):
            size = len(sentence) if isinstance(sentence, str) else 0  # it will be refused
            if at > start and (at - start == most or count + size > letters):
                yield sentences[start:at]
                start, count = at, 0
            count += size
        yield sentences[start:]

    def encode(
        self,
        sentences: str | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
    ) -> np.ndarray | torch.Tensor:
        """`embed` by the names of sentence-transformers' `encode`.

        Args:
            sentences: N strings; or one, whose vector alone is returned.
            prompt_name: One of `prompts`, in place of `prefix`; `prompt`, if given, is taken instead.
            prompt: Text before every sentence.
            batch_size: Sentences that are computed together, at most; None: a budget of tokens decides.
            show_progress_bar: Show a bar on stderr.
            convert_to_tensor: Return a tensor of torch.
            normalize_embeddings: Make vectors of length 1.

        Returns:
            float32 [N, dim], or [dim] of one sentence.

        Raises:
            MexmaError: As `embed`; or there is no prompt of that name, or a batch of no sentences.
        """
        if batch_size is not None and batch_size < 1:
            raise MexmaError(f"a batch of {batch_size} sentences is none")
        if prompt is None and prompt_name is not None:
            if prompt_name not in self.prompts:
                raise self._no_prompt(prompt_name)
            prompt = self.prompted(prompt_name)
        from tqdm import tqdm

        before = self.prefix, self.batch_size
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        self.prefix, self.batch_size = self.prefix if prompt is None else prompt, batch_size
        try:
            with tqdm(total=len(texts), unit="sentence", disable=not show_progress_bar) as bar:
                vectors = self.embed(texts, on_batch=lambda done, _: bar.update(done))
        finally:
            self.prefix, self.batch_size = before
        if normalize_embeddings:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        found = vectors[0] if isinstance(sentences, str) else vectors
        if not convert_to_tensor:
            return found
        import torch

        return torch.from_numpy(found)

    def _way_to_embed(self) -> EmbedBatch:
        """The way to compute vectors with weights, modules and settings as they are now."""
        weights, most = self.transformer, self.batch_size
        if weights.pools:
            low = self.on_cpu and self.precision == "bfloat16"
            return partial(self._finished, weights.embedding(self.prefix, self.max_tokens, most, low))
        if self.precision == "float32" and self.is_bag:
            return partial(self._finished, weights.made(BagOfEmbeddings, int(self._tokens([""])[0][0])).embed)
        from mexma_cli.encoder.model.packed import TransformerEncoder

        modules, backend = list(self.modules), self.backend
        return TransformerEncoder(weights, self.precision, self.pooling, modules, backend, most).embed

    def _finished(self, embed: EmbedBatch, some: Sentences) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows, pooled in embed(some):
            yield rows, self.finish(pooled)

    def finish(self, pooled: np.ndarray) -> np.ndarray:
        """Apply the modules to pooled states float32 [N, width]: sentence vectors float32 [N, dim]."""
        if not self._modules:
            return pooled[:, : self.dim]
        import torch

        with torch.inference_mode():
            return self.modules(torch.from_numpy(pooled)).numpy()[:, : self.dim]

    def check_packs(self, what: str) -> None:
        """Refuse an encoder that only embeds, for what needs one that is trained on packed sentences."""
        from mexma_cli.encoder.model.attention import packs

        family = FAMILIES.get(self.model.config.model_type)
        if not packs(self.model) or (family is not None and family.only_embeds):
            others = [name for name, one in FAMILIES.items() if one.packs and not one.only_embeds]
            raise MexmaError(
                f"{self.name!r}: {what} needs a model that takes packed sentences, and this "
                f"{self.model.config.model_type} only embeds",
                f"{', '.join(others)} do",
            )

    def save(self, path: str | Path, dtype: str = "float32", *, replace: bool = True) -> None:
        """Write a folder that transformers, sentence-transformers and `load` read; whole or not at all.

        With n-grams or `pq` weights, every version of transformers refuses it, and sentence-transformers
        asks for `trust_remote_code` to load it through mexma.

        Args:
            dtype: Of the stored weights: `float32`, `bfloat16` or `float16`; or `pq`, the embeddings of
                tokens and n-grams product quantised and all else as float16.
            replace: If not, an encoder that is there already has to be the same, and stays.

        Raises:
            MexmaError: Another type, a full disk, or the path holds something that is no encoder, or with
                `replace` off another one.
        """
        kind = self.transformer.config.model_type
        if self.takes_language or kind in ("laser2", "laser3", KIND):
            raise MexmaError(f"{self.name!r}: an encoder of the kind {kind} is not written", "copy its files")
        check_replaceable(Path(path))
        with written_aside(Path(path), replace) as aside:
            stored = self.save_transformer(aside, dtype)
            mode = None if self.transformer.pools else self.pooling
            save_modules(aside, mode, self.transformer.config.hidden_size, list(self.modules), stored)
            if self.trained:
                card.write_trained(aside, self.trained)
            if self.languages:
                card.write(aside, self.languages, self.trained)

    def push_to_hub(
        self,
        repository: str,
        *,
        private: bool = False,
        dtype: str = "float32",
        message: str = "A sentence encoder, written by mexma",
    ) -> str:
        """Upload what `save` writes, the model card included, to a repository of the Hugging Face hub.

        The repository is made if it is not there. huggingface_hub's own login counts (`hf auth login`).

        Args:
            repository: `owner/name`.
            private: Whether a new repository is private.
            dtype: As for `save`.
            message: Of the commit.

        Returns:
            The name to load it by, with its commit: `owner/name@COMMIT`.

        Raises:
            MexmaError: As `save`; or the hub refuses it, or cannot be reached.
        """
        if not is_id(repository) or "@" in repository:
            raise MexmaError(f"{repository!r} is no repository of the hub", "it is written owner/name")
        with tempfile.TemporaryDirectory(prefix="mexma-") as folder:
            self.save(Path(folder) / "encoder", dtype)
            return upload(Path(folder) / "encoder", repository, private, message)

    def save_transformer(self, where: Path, dtype: str) -> torch.dtype:
        """Write everything but the card, the pooling and the modules, into an existing folder.

        Returns:
            The type in which the modules are to be stored.
        """
        from mexma_cli.numerics.devices import precision_of

        stored = precision_of("float16" if dtype == "pq" else dtype)
        write_prompts(where, prompt_settings(self.prefix, self.prompts, self._kept))
        if self.transformer.pools:
            if dtype == "pq":
                raise MexmaError(f"{self.name!r}: a static encoder is not quantised", "--dtype fp16")
            table = {name: weight.to(stored) for name, weight in self.transformer.weights.items()}
            static.save_table(where, table, self.fast_tokenizer, self.max_tokens)
            return stored
        self.tokenizer.save_pretrained(where)
        if dtype == "pq":
            pq.save(self.model, self.tokenizer.all_special_ids, where)
            shorten_tokenizer(where)
        else:
            weights = self.model.state_dict()  # a folder's own code may count in integers
            cast = {name: part.to(stored) for name, part in weights.items() if part.is_floating_point()}
            self.model.save_pretrained(where, state_dict=weights | cast)
        self.model.config.dtype = stored  # transformers writes the model's own
        self.model.config.save_pretrained(where)
        if self.ngrams:
            self.ngrams.save(where, small=dtype == "pq")
            if dtype != "pq":
                (where / WEIGHTS).rename(where / BESIDE_NGRAMS)
        if is_only_ours(where):
            write_only_ours(where)
        lower_case = puts_in_lower_case(self.fast_tokenizer.backend)
        write_settings(where, self.max_tokens, lower_case)
        return stored


def _length(found: Loaded, wanted: int | Literal["encoder"] | None) -> int:
    """The tokens that sentences are cut to."""
    if wanted == "encoder":
        return found.limit
    if wanted is not None:
        special = len(found.tokenizer.encode([""])[0])
        if wanted <= special:
            raise MexmaError(
                f"{found.name!r}: a limit of {wanted} tokens has no room for a sentence",
                f"{special} are special ones: --max-tokens {special + 1} or more",
            )
        if wanted > found.limit:
            text = "%s takes %d tokens at most: the limit is %d, not %d"
            log.warning(text, found.name, found.limit, found.limit, wanted)
    return min(wanted or MAX_TOKENS, found.limit)


def _hash_weights(digest: xxhash.xxh3_128, weights: Mapping[str, Any]) -> None:
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        if isinstance(weight, np.ndarray | QuantisedEmbeddings):
            for at in range(0, len(weight), _HASHED_ROWS):
                digest.update(weight[at : at + _HASHED_ROWS].data)
            continue
        import torch

        tensor = weight.detach().cpu().contiguous().flatten()
        digest.update(tensor.view(torch.uint8).numpy().data)
