"""SentenceEncoder: load, embed, save. Text in, one vector a sentence out."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import xxhash

from mexma_cli.encoder.loading import card, folder, int3
from mexma_cli.encoder.loading.body import Body
from mexma_cli.encoder.loading.tokens import Tokens, check_strings, puts_in_lower_case
from mexma_cli.encoder.loading.transformer import load_tokenizer, load_transformer
from mexma_cli.encoder.model.attention import IMPLEMENTATION, choose_backend, run_packed
from mexma_cli.encoder.model.engine import Engine, supported
from mexma_cli.encoder.model.modules import (
    Dense,
    Normalize,
    Pooling,
    check_widths,
    load_dense,
    pool,
    save_modules,
)
from mexma_cli.encoder.model.packing import by_token_budget, pack
from mexma_cli.encoder.ngrams.embeddings import Spelling
from mexma_cli.errors import MexmaError
from mexma_cli.numerics.devices import pick_device, pick_precision, precision_of
from mexma_cli.numerics.threads import one_thread_each
from mexma_cli.recipe import NewEncoder

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

log = logging.getLogger(__name__)

TOKENS_PER_BATCH = 2048
"""Small budgets stay in the processor's cache; a GPU takes GPU_TOKENS_PER_BATCH."""
GPU_TOKENS_PER_BATCH = 32768
SENTENCES_PER_BUFFER = 8192
"""Sentences sorted by length together."""

MAX_TOKENS = 200
"""Length limit of an encoder whose folder asks for no smaller one."""


class SentenceEncoder:
    """A Hugging Face encoder with its tokeniser, pooling and the modules after it.

    Attributes:
        name: As it was asked for.
        body: The transformer.
        tokens: The tokeniser.
        pooling: `cls`, `mean`, or `pooler`: the first token through BERT's pooler, first of `modules`.
        modules: `Dense` and `Normalize` after the pooling, in order, always float32.
        max_tokens: Longer sentences are cut, with <s> and </s> kept: the end goes, or the beginning where the
            tokeniser says so.
        prefix: Put before every sentence (`query: ` and the like).
        prompts: Those of sentence-transformers by name, which `save` writes again.
        spelling: How `embed` takes words that the tokeniser splits; None: as their pieces.
        languages: FLORES-200 codes of those that it was trained on, by its model card; () if that is silent.
        precision: What `embed` computes in; sums, residuals and norms are float32 on a processor.
        truncated: Sentences cut since the encoder was loaded.

    >>> from mexma_cli import SentenceEncoder
    >>> encoder = SentenceEncoder.load("mini")  # bundled; or a folder, or a hub id
    >>> vectors = encoder.embed(["Él nació en África.", "He was born in Africa."])
    >>> vectors.shape, str(vectors.dtype)
    ((2, 320), 'float32')
    """

    def __init__(
        self,
        name: str,
        model: PreTrainedModel | Body,
        tokenizer: PreTrainedTokenizerFast | Tokens,
        pooling: Pooling = "cls",
        modules: Sequence[torch.nn.Module] = (),
        max_tokens: int = MAX_TOKENS,
        attention: str = "auto",
        prefix: str = "",
        precision: torch.dtype = torch.float32,
        spelling: Spelling | None = None,
        languages: Sequence[str] = (),
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.body = model if isinstance(model, Body) else Body(model)
        self.tokens = tokenizer if isinstance(tokenizer, Tokens) else Tokens.of(tokenizer)
        self.pooling = pooling
        self.modules = torch.nn.Sequential(*modules)
        self.max_tokens = max_tokens
        self.prefix = prefix
        self.precision = precision
        self.spelling = spelling
        self.languages = tuple(languages)
        self.prompts = prompts or {}
        self.truncated = 0
        self._engine: Engine | None = None
        self.backend = choose_backend(attention, self.body.device)
        self._fingerprint: str | None = None

    @classmethod
    def load(
        cls,
        name_or_path: str | Path = "mini",
        device: str = "auto",
        dtype: str = "float32",
        attention: str = "auto",
        *,
        pooling: Pooling | None = None,
        max_tokens: int | None = None,
        trust_remote_code: bool = False,
    ) -> SentenceEncoder:
        """An encoder by name: `mini` (bundled), a folder, or a hub id such as `facebook/MEXMA`.

        Args:
            name_or_path: A Path is a folder, whatever its name.
            device: `cpu`, `cuda`, `cuda:1`, or `auto` (the GPU where there is one).
            dtype: What `embed` computes in: `float32`, `bfloat16`, `float16`, or `auto`: bfloat16 where the
                device has instructions for it, else float32 on a processor and float16 on a GPU.
            pooling: In place of the folder's own.
            max_tokens: Length limit; the folder's own where that is smaller, MAX_TOKENS where this is None.
            trust_remote_code: Run the Python code that the folder brings, if it brings some.

        Raises:
            MexmaError: No such encoder, not an encoder's folder, a module that is not honoured, or a
                device that is not there.
        """
        if max_tokens is not None and max_tokens < 2:
            raise MexmaError(f"a length limit of {max_tokens} tokens has no room for a sentence")
        if isinstance(name_or_path, Path):
            name_or_path = os.path.join(".", name_or_path)
        name = name_or_path.rstrip("/") or name_or_path
        where = Path(folder.locate(name_or_path, trust_remote_code))
        settings = folder.read_settings(where, trust_remote_code)
        body, pooler = load_transformer(name, settings, with_pooler=pooling == "pooler")
        tokens = load_tokenizer(name, settings.transformer, settings, body.vocabulary)
        modules: list[torch.nn.Module] = [] if pooler is None else [pooler]
        for kind, path, config in settings.modules:
            modules.append(load_dense(path, config) if kind == "Dense" else Normalize())
        width = body.config.hidden_size
        check_widths(name, width, modules)
        positions = body.config.max_position_embeddings - body.first_position
        limit = min(tokens.limit(name, settings.max_tokens), positions)
        if max_tokens is not None and max_tokens > limit:
            log.warning("%s takes %d tokens at most: the limit is %d, not %d", name, limit, limit, max_tokens)
        encoder = cls(
            name,
            body,
            tokens,
            pooling or settings.pooling,
            modules,
            min(max_tokens or MAX_TOKENS, limit),
            "bucketed",
            settings.prefix,
            spelling=Spelling.load(settings.transformer, width),
            languages=card.languages(where),
            prompts=settings.prompts,
        )
        if settings.own_code:
            encoder._check_own_code()
        _ = encoder.fingerprint  # of the weights as they are stored, whatever they are cast to
        encoder._move(pick_device(device), dtype)
        encoder.backend = choose_backend(attention, encoder.device)
        return encoder

    @classmethod
    def new(
        cls, shape: NewEncoder, tokenizer: PreTrainedTokenizerFast, max_tokens: int, seed: int
    ) -> SentenceEncoder:
        """An untrained XLM-R of a recipe's shape, CLS pooling, initialised from `seed`.

        Raises:
            MexmaError: The heads do not divide the width.
        """
        from mexma_cli.encoder.loading.hugging_face import new_model

        model = new_model(shape, len(tokenizer), max_tokens, seed)
        return cls("new", model, tokenizer, max_tokens=max_tokens)

    @property
    def model(self) -> PreTrainedModel:
        """Transformers' unmodified model, attending by packed sentences."""
        return self.body.model

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Transformers' fast tokeniser."""
        return self.tokens.full

    def _move(self, device: torch.device, dtype: str) -> None:
        self.precision = pick_precision(dtype, device)
        # On a processor the weights stay float32, and the engine has copies for its products.
        on_cpu = device.type == "cpu" and self.precision != torch.float16
        self.body.to(device, torch.float32 if on_cpu else self.precision)
        self.modules.to(device)

    @property
    def dim(self) -> int:
        """Numbers in a sentence vector."""
        layers = [module.linear.out_features for module in self.modules if isinstance(module, Dense)]
        return layers[-1] if layers else self.body.config.hidden_size

    @property
    def normalised(self) -> bool:
        """Whether `embed` returns unit vectors."""
        return len(self.modules) > 0 and isinstance(self.modules[-1], Normalize)

    @property
    def precision_name(self) -> str:
        """`precision` as users and manifests have it: `bfloat16`."""
        return str(self.precision).removeprefix("torch.")

    @property
    def device(self) -> torch.device:
        """Where the transformer is."""
        return self.body.device

    @property
    def fingerprint(self) -> str:
        """Hash of weights, tokeniser, pooling, modules and length limit: equal only if vectors are.

        The prefix is not in it: queries and passages are of one encoder.
        """
        if self._fingerprint is None:
            digest = xxhash.xxh3_128()
            _hash_weights(digest, self.body.weights)
            digest.update(self._uncut().to_str().encode())
            pooling = "mean" if self.pooling == "mean" else "cls"  # a pooler is one of the modules
            digest.update(f"{pooling} {self.normalised} {self.max_tokens}".encode())
            if self.tokens.keeps_end:
                digest.update(b" of the end")
            if self.spelling:
                self.spelling.hash_into(digest)
            if any(isinstance(module, Dense) for module in self.modules):
                for module in self.modules:
                    digest.update(repr(module).encode())
                    _hash_weights(digest, module.state_dict())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint

    def tokenize(self, sentences: Sequence[str]) -> list[np.ndarray]:
        """Token ids with <s> and </s>, cut to `max_tokens`; the cut ones are counted in `truncated`."""
        return [self._cut(ids) for ids in self._tokens(sentences)]

    def count_cut(self, sentences: Sequence[str]) -> None:
        """Count in `truncated` the sentences that `embed` would cut."""
        self.inputs(sentences)

    def _tokens(self, sentences: Sequence[str]) -> list[np.ndarray]:
        backend = self._uncut()
        try:
            encodings = backend.encode_batch_fast([self.prefix + sentence for sentence in sentences])
            return [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]
        except TypeError:
            check_strings((self.prefix, *sentences))
            raise

    def _uncut(self) -> Tokenizer:
        """The tokeniser, whose file or transformers' object may ask it to cut and to pad, without that."""
        backend = self.tokens.backend
        backend.no_truncation()
        backend.no_padding()
        return backend

    def _cut(self, ids: np.ndarray) -> np.ndarray:
        if len(ids) <= self.max_tokens:
            return ids
        self.truncated += 1
        if self.tokens.keeps_end:
            return np.append(ids[:1], ids[1 - self.max_tokens :])
        return np.append(ids[: self.max_tokens - 1], ids[-1])

    def inputs(self, sentences: Sequence[str]) -> tuple[list[np.ndarray], torch.Tensor | None]:
        """Token ids as `embed` takes them, and the rows that ids above the vocabulary stand for."""
        tokens, rows = self._tokens(sentences), None
        if self.spelling and tokens:
            tokens, rows = self.spelling.replaced(tokens, self.tokens.backend)
        return [self._cut(ids) for ids in tokens], rows

    def embed(
        self, sentences: Sequence[str], on_progress: Callable[[int, int], object] | None = None
    ) -> np.ndarray:
        """One vector a sentence, in the order given.

        Args:
            sentences: N strings; an empty one is embedded as <s></s>.
            on_progress: Called after every batch with the sentences and tokens in it.

        Returns:
            float32 [N, dim], unit length where the encoder normalises.

        Raises:
            MexmaError: One string in place of several, what is no string, or text that is not UTF-8.
        """
        if isinstance(sentences, str):
            raise MexmaError("embed takes a list of sentences, not one string", "embed([sentence])[0]")
        vectors = np.empty((len(sentences), self.dim), dtype=np.float32)
        on_cpu = self.device.type == "cpu"
        self._prepare()
        with one_thread_each(torch.get_num_threads() if on_cpu else 1) as in_order:
            for start in range(0, len(sentences), SENTENCES_PER_BUFFER):
                tokens, spelled = self.inputs(sentences[start : start + SENTENCES_PER_BUFFER])
                if spelled is not None:
                    spelled = spelled.to(self.device)  # once, since all batches have the same rows
                lengths = [len(ids) for ids in tokens]
                batches = list(by_token_budget(lengths, TOKENS_PER_BATCH if on_cpu else GPU_TOKENS_PER_BATCH))
                parts = ([tokens[row] for row in rows] for rows in batches)
                embed = partial(self._embed_batch, spelled=spelled)
                for rows, found in zip(batches, in_order(embed, parts), strict=True):
                    vectors[start + rows] = found
                    if on_progress:
                        on_progress(len(rows), sum(lengths[row] for row in rows))
        return vectors

    def _prepare(self) -> None:
        """On a processor an engine with the weights as they are now; else the model in evaluation mode."""
        if self.precision == torch.float16 or not supported(self.body):
            self._engine = None
            self.model.eval()
        elif self._engine is None or self._engine.dtype != self.precision or self._engine.stale:
            self._engine = Engine(self.body, self.precision)

    @torch.inference_mode()
    def _embed_batch(
        self, sentences: Sequence[np.ndarray], spelled: torch.Tensor | None = None
    ) -> np.ndarray:
        batch = pack(sentences, self.body.first_position, spelled).to(self.device)
        if self._engine is None:
            pooled = pool(run_packed(self.model, batch, self.backend).float(), batch, self.pooling)
        elif self.pooling == "mean":
            pooled = pool(self._engine.hidden(batch, first_only=False), batch, "mean")
        else:
            pooled = self._engine.hidden(batch, first_only=True)
        return self.modules(pooled).cpu().numpy()

    def _check_own_code(self) -> None:
        """A sentence among others has the vector that it has alone, or the code attends in its own way.

        Raises:
            MexmaError: It has not.
        """
        ids = self.tokenize(["a", "b c", "a"])
        reason = ""
        try:
            together, alone = self._embed_batch(ids), self._embed_batch(ids[:1])
            own = self.model.config._attn_implementation != IMPLEMENTATION
            packed = not own and np.allclose(together[[0, 2]], alone, atol=1e-4)
        except Exception as error:  # of the folder's code, which may not know the arguments
            packed, reason = False, f" ({error})"
        if not packed:
            raise MexmaError(
                f"{self.name!r}: its own code does not attend through transformers' AttentionInterface"
                + reason,
                f"supported without such code: {', '.join(folder.FAMILIES)}",
            )

    def save(self, path: str | Path, dtype: str = "float32") -> None:
        """Write a folder that transformers, sentence-transformers and `load` read; whole or not at all.

        Args:
            dtype: Of the stored weights: `float32`, `bfloat16` or `float16`; or `int3`, the word embeddings
                with 3 bits on average and all else as float16, which `load` alone reads.

        Raises:
            MexmaError: Another type, a full disk, or something else than an encoder is there.
        """
        folder.check_replaceable(Path(path))
        with folder.written_aside(Path(path)) as aside:
            stored = self.save_transformer(aside, dtype)
            save_modules(aside, self.pooling, self.body.config.hidden_size, list(self.modules), stored)
            if self.languages:
                card.write(aside, self.languages)

    def save_transformer(self, where: Path, dtype: str) -> torch.dtype:
        """Write all of that folder but the card, the pooling and the modules, into a folder that is there.

        Returns:
            What the other weights are stored in.
        """
        stored = torch.float16 if dtype == "int3" else precision_of(dtype)
        self.tokenizer.save_pretrained(where)
        if dtype == "int3":
            first = int(self.tokenize([""])[0][0])
            int3.save(self.model, first, self.tokenizer.all_special_ids, where, self.body.coded)
            folder.shorten_tokenizer(where)
        else:
            weights = self.model.state_dict()  # a folder's own code may count in integers
            cast = {name: part.to(stored) for name, part in weights.items() if part.is_floating_point()}
            self.model.save_pretrained(where, state_dict=weights | cast)
        self.model.config.dtype = stored  # transformers writes the model's own
        self.model.config.save_pretrained(where)
        if self.spelling:
            self.spelling.save(where, small=dtype == "int3")
        lower_case = puts_in_lower_case(self.tokens.backend)
        folder.write_settings(where, self.max_tokens, lower_case, self.prefix, self.prompts)
        return stored


def _hash_weights(digest: xxhash.xxh3_128, weights: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
