"""From token ids of pairs to packed batches of both sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

import numpy as np
import torch
import xxhash

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.packing import OfTensors, PackedBatch, pack
from mexma_cli.objectives.gather import all_rows
from mexma_cli.store.pairs import ExtraColumn


@dataclass(frozen=True)
class Vocabulary:
    """The ids that building a batch needs.

    Attributes:
        bos, eos: <s>, </s>.
        mask: <mask>; None where the tokeniser has none, and nothing can be masked.
        special: All special ids; none of them is ever chosen for masking.
        size: Number of tokens; random replacements are drawn from all of them, as in the authors' code.
        first_position: Position id of a sentence's first token.
        joint: What stands for the second sentence's first token where two are one sequence: </s> in
            RoBERTa's family (<s> x </s></s> y </s>), and nothing in BERT's ([CLS] x [SEP] y [SEP]).
        merge_split_words: From sentences to those with one id, from `size` on, for each word in pieces, and
            what these ids stand for (`NgramEmbeddings.merge_split_words`); None: words stay in pieces.
    """

    bos: int
    eos: int
    mask: int | None
    special: frozenset[int]
    size: int
    first_position: int
    joint: int | None = None
    merge_split_words: Callable[[list[np.ndarray]], tuple[list[np.ndarray], np.ndarray]] | None = None

    @classmethod
    def of(cls, encoder: SentenceEncoder, ngrams: bool) -> Vocabulary:
        """An encoder's.

        Args:
            ngrams: Words in pieces are embedded by their n-grams, if the encoder does that.
        """
        tokenizer, first = encoder.tokenizer, encoder.transformer.first_position
        merged, backend = encoder.ngrams if ngrams else None, encoder.fast_tokenizer.backend
        return cls(
            bos=tokenizer.cls_token_id,
            eos=tokenizer.sep_token_id,
            mask=tokenizer.mask_token_id,
            special=frozenset(tokenizer.all_special_ids),
            size=encoder.model.config.vocab_size,
            first_position=first,
            joint=tokenizer.sep_token_id if first else None,  # RoBERTa counts positions from its padding
            merge_split_words=partial(merged.merge_split_words, tokenizer=backend) if merged else None,
        )

    def whole(self, sentence: np.ndarray) -> np.ndarray:
        """int64, a sentence with its first and last tokens."""
        return np.concatenate([[self.bos], sentence, [self.eos]]).astype(np.int64)


@dataclass(frozen=True)
class TokenPairs:
    """B pairs that follow each other in a run.

    Attributes:
        ids: Token ids of source and target, without <s> and </s>.
        seed: Of everything random about them.
        start: Position of the first pair in the run. What is random about a pair comes from its position and
            the seed alone, so that it is the same however many processes share the run.
        languages: int64 [B], which of the run's source languages each pair has; None: all the same.
        extra: Token ids of each pair's sentences in extra columns, such as hard negatives (`store.pairs`).
    """

    ids: Sequence[tuple[np.ndarray, np.ndarray]]
    seed: int = 0
    start: int = 0
    languages: np.ndarray | None = None
    extra: Mapping[ExtraColumn, Sequence[Sequence[np.ndarray]]] = field(default_factory=dict)


@dataclass(frozen=True)
class PairViews(OfTensors):
    """B pairs as one packed batch: C clean sentences by length, then (if there are any) masked sequences.

    C is 2B + H, both sides of each pair and the hard negatives; or B, one side of each. An objective that
    needs more than this derives a class of its own.

    Attributes:
        batch: The C clean sentences, then the masked sequences.
        source_rows, target_rows: int64 [B], where pair i's two sentences stand among the clean ones;
            [0] if they are not both there.
        partners: int64, where among the clean ones the translation of each masked sentence stands; without
            masked ones, of each clean sentence that is no hard negative.
        negative_rows: int64 [H], where the hard negatives stand among the clean ones, pair after pair.
        negative_pairs: int64 [H], which pair each of them belongs to.
        identities: int64 [C] of the clean sentences, equal for equal ones, in all processes of a run.
        masked_tokens: int64 [M], places of the chosen tokens within the masked sequences, sources' first.
        labels: int64 [M], the tokens that stood there.
        source_labels: How many of them are in sources. On the host, so that nothing waits for the device.
    """

    batch: PackedBatch
    source_rows: torch.Tensor
    target_rows: torch.Tensor
    partners: torch.Tensor
    negative_rows: torch.Tensor
    negative_pairs: torch.Tensor
    identities: torch.Tensor
    masked_tokens: torch.Tensor
    labels: torch.Tensor
    source_labels: int

    def negatives(
        self, sentences: torch.Tensor, gather: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The inputs of a contrastive loss: both sides of the pairs, and which of them are no negatives.

        Args:
            sentences: [C, dim], vectors of the clean sentences.
            gather: Take the pairs of all processes, N of them, in place of the own B.

        Returns:
            Sources [N, dim], targets [N, dim], and bool [N, N]: pairs i and j share a sentence, so j is
            no negative for i. False on the diagonal.
        """
        parts = [
            rows[side]
            for rows in (sentences, self.identities)
            for side in (self.source_rows, self.target_rows)
        ]
        source, target, source_id, target_id = map(all_rows, parts) if gather else parts
        same = (source_id[:, None] == source_id[None]) | (target_id[:, None] == target_id[None])
        return source, target, same.fill_diagonal_(False)

    def split(self) -> tuple[PackedBatch, PackedBatch]:
        """The clean sentences and the masked sequences, each as a packed batch of its own."""
        batch, count = self.batch, len(self.identities)
        return batch.part(0, count), batch.part(count, len(batch.lengths))


@dataclass(frozen=True)
class StackedSides:
    """Both sides of B pairs as 2B sentences with their first and last tokens, sources before targets; and
    behind them their H hard negatives.

    Attributes:
        ids: int64, a sentence each.
        identities: int64 [2B + H], equal for equal sentences.
        negative_pairs: int64 [H], which pair each hard negative belongs to.
        extra_embeddings: What the ids above the vocabulary's stand for, as in `PackedBatch`.
        of_run: int64 [2B], the number of each sentence in the run: twice its pair's position, plus its side.
        by_length: int64 [2B + H], the sentences' order.
    """

    ids: list[np.ndarray]
    identities: np.ndarray
    negative_pairs: np.ndarray
    extra_embeddings: np.ndarray | None
    of_run: np.ndarray
    by_length: np.ndarray
    first_position: int

    @classmethod
    def of(cls, pairs: TokenPairs, vocabulary: Vocabulary) -> StackedSides:
        """The sentences of these pairs."""
        count = len(pairs.ids)
        sides = ([pair[side] for pair in pairs.ids] for side in (0, 1))
        negatives = [[ids for ids in own if len(ids)] for own in pairs.extra.get("negatives", ())]
        ids = [vocabulary.whole(sentence) for sentence in chain(*sides, *negatives)]
        negative_pairs = np.repeat(np.arange(len(negatives)), [len(own) for own in negatives])
        # Of the pieces, since the id of a word's n-grams is the batch's own. Not Python's hash: it differs
        # from process to process.
        identities = np.array([xxhash.xxh3_64_intdigest(sentence.tobytes()) - 2**63 for sentence in ids])
        extra_embeddings = None
        if vocabulary.merge_split_words is not None:
            ids, extra_embeddings = vocabulary.merge_split_words(ids)
        by_length = np.argsort([len(sentence) for sentence in ids], kind="stable")
        of_run = 2 * (pairs.start + np.arange(2 * count) % count) + np.arange(2 * count) // count
        return cls(
            ids,
            identities,
            negative_pairs.astype(np.int64),
            extra_embeddings,
            of_run,
            by_length,
            vocabulary.first_position,
        )

    @property
    def translations(self) -> np.ndarray:
        """int64 [2B], the sentences by length without the hard negatives."""
        return self.by_length[self.by_length < len(self.of_run)]

    def views(self, shown: np.ndarray | None = None, hidden: np.ndarray | None = None) -> PairViews:
        """The clean sentences, packed.

        Args:
            shown: int64 [C], which sentences; None: all, by length.
            hidden: int64, which sentences are masked (for `PairViews.partners`); None: all translations.
        """
        shown = self.by_length if shown is None else shown
        hidden = self.translations if hidden is None else hidden
        count = len(self.of_run) // 2
        row = np.full(len(self.ids), -1)
        row[shown] = np.arange(len(shown))
        pair_rows = row if len(shown) == len(row) else row[:0]
        nothing = torch.empty(0, dtype=torch.int64)
        return PairViews(
            pack([self.ids[side] for side in shown], self.first_position, self.extra_embeddings),
            source_rows=torch.from_numpy(pair_rows[:count]),
            target_rows=torch.from_numpy(pair_rows[count : 2 * count]),
            partners=torch.from_numpy(row[(hidden + count) % (2 * count)]),
            negative_rows=torch.from_numpy(pair_rows[2 * count :]),
            negative_pairs=torch.from_numpy(self.negative_pairs[: len(pair_rows[2 * count :])]),
            identities=torch.from_numpy(self.identities[shown]),
            masked_tokens=nothing,
            labels=nothing,
            source_labels=0,
        )
